"""Between dialects: legalize, lift, and what a target can say."""
