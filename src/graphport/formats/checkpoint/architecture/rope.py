"""Rotary position embeddings: frequencies of all scaling methods, from both generations of configurations."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log, pi, sqrt
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.formats.checkpoint.container.config import Config

if TYPE_CHECKING:
    from graphport.formats.checkpoint.architecture.declaration import Decoder

Floats = np.ndarray[Any, np.dtype[np.float32]]

ROPE_TYPES = ("default", "linear", "dynamic", "llama3", "yarn", "longrope", "divided")
"""Scaling methods; `divided` is the tensor of divisors in a GGUF file."""
_ALIASES = {"su": "longrope", "mrope": "default"}


@dataclass(frozen=True, eq=False)
class Rotation:
    """Frequencies of the rotated pairs of a head.

    `long` are the frequencies from `limit` positions on. For `dynamic` scaling the base grows beyond `limit` positions.
    """

    frequencies: Floats
    factor: float = 1.0
    """Factor of cosines and sines."""
    long: Floats | None = None
    limit: int = 0
    dynamic: tuple[float, float, int] | None = None
    """Base, scaling factor and width of the rotated part."""

    @property
    def size(self) -> int:
        """Number of rotated channels of a head."""
        return 2 * len(self.frequencies)


def read_rotation(config: Config, decoder: Decoder, layer_type: str = "") -> Rotation:
    """Return the rotation that the layers of a type apply.

    Raises:
        DiagnosticError: CKPT0005 the scaling method is not known; CKPT0006 its parameters are missing or out of range.
    """
    section = rope_section(config, layer_type)
    kind = section.text("rope_type", "type", default=decoder.rope_default)
    kind = _ALIASES.get(kind, kind)
    if kind not in ROPE_TYPES:
        message = f"the rotary scaling {kind[:60]!r}"
        raise section.unsupported("rope_type", message, f"known: {', '.join(ROPE_TYPES)}")
    theta = section.finite_float("rope_theta", default=decoder.theta)
    if theta <= 1:
        raise section.fault("rope_theta", f"rope_theta is {theta}, expected more than 1")
    width = rotary_width(section, decoder)
    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    frequencies = (1 / np.float32(theta) ** exponents).astype(np.float32)
    match kind:
        case "linear":
            return Rotation((frequencies / np.float32(_factor(section))).astype(np.float32))
        case "dynamic" if section.has("alpha"):
            # Hunyuan: the base does not depend on the length.
            base = theta * section.finite_float("alpha") ** (width / max(width - 2, 1))
            return Rotation((1 / np.float32(base) ** exponents).astype(np.float32))
        case "dynamic":
            return Rotation(frequencies, limit=decoder.context, dynamic=(theta, _factor(section), width))
        case "llama3":
            return Rotation(_llama3(frequencies, section, decoder))
        case "yarn":
            return _yarn(theta, width, section, decoder)
        case "divided":
            divisors = np.asarray(section.positive_floats("divisors", len(frequencies)), np.float32)
            return Rotation((frequencies / divisors).astype(np.float32))
        case "longrope":
            return _longrope(theta, exponents, section, decoder)
        case _:
            return Rotation(frequencies)


def rope_section(config: Config, layer_type: str) -> Config:
    """Return the parameters of rotation: of transformers 5, by layer type or for all, or of earlier versions."""
    merged: dict[str, Any] = {}
    for name in ("original_max_position_embeddings", "partial_rotary_factor", "max_position_embeddings"):
        if config.has(name):
            merged[name] = config.values[name]
    if config.has("rotary_pct"):
        merged["partial_rotary_factor"] = config.values["rotary_pct"]
    name, theta = config.find(("rope_theta", "rotary_emb_base"))
    if theta is not None:
        merged["rope_theta"] = config.finite_float(name)
    prefix = "rope_scaling." if config.has("rope_scaling") else "rope_parameters."
    section = config.section("rope_parameters")
    own = None if section is None or not layer_type else section.section(layer_type)
    if own is not None:
        merged.update({key: value for key, value in own.values.items() if value is not None})
        return Config(merged, config.source, f"rope_parameters.{layer_type}.")
    local = config.find(("rope_local_base_freq", "local_rope_theta"))[0]
    if layer_type == "sliding_attention" and config.has(local):
        # Before transformers 5: scaling applies to the layers without a window alone.
        return Config({"rope_theta": config.finite_float(local)}, config.source, prefix)
    nested = {"full_attention", "sliding_attention"}
    for each in (config.section("rope_scaling"), section):
        if each is not None:
            merged.update({key: value for key, value in each.values.items() if value is not None and key not in nested})
    return Config(merged, config.source, prefix)


def rotary_width(section: Config, decoder: Decoder) -> int:
    """Return the number of channels of a head that the exponents of the frequencies refer to."""
    if decoder.rotary_size:
        width = decoder.rotary_size
    else:
        factor = decoder.rotary_factor
        if decoder.has_rotary_factor:
            factor = section.finite_float("partial_rotary_factor", default=factor)
        width = int(decoder.head_size * factor)
    if not 1 <= width <= decoder.head_size or (width % 2 and width + 1 > decoder.head_size):
        message = f"the rotary dimension is {width}, but the head size is {decoder.head_size}"
        raise section.fault("partial_rotary_factor", message)
    return width


def _factor(section: Config) -> float:
    factor = section.finite_float("factor")
    if factor <= 0:
        raise section.fault("factor", f"factor is {factor}, expected a positive number")
    return factor


def _original(section: Config, decoder: Decoder) -> int:
    return section.integer("original_max_position_embeddings", default=decoder.context)


def _llama3(frequencies: Floats, section: Config, decoder: Decoder) -> Floats:
    """Divide long wavelengths by the factor, keep short ones, and interpolate between them."""
    factor, original = _factor(section), _original(section, decoder)
    low, high = section.finite_float("low_freq_factor"), section.finite_float("high_freq_factor")
    if not 0 < low < high:
        raise section.fault("low_freq_factor", f"the frequency factors are {low} and {high}, expected 0 < low < high")
    wavelengths = 2 * pi / frequencies
    smooth = (original / wavelengths - low) / (high - low)
    between = (1 - smooth) * frequencies / factor + smooth * frequencies
    scaled = np.where(wavelengths > original / low, frequencies / factor, frequencies)
    is_between = (wavelengths >= original / high) & (wavelengths <= original / low)
    return np.where(is_between, between, scaled).astype(np.float32)


def _yarn(theta: float, width: int, section: Config, decoder: Decoder) -> Rotation:
    original = _original(section, decoder)
    factor = section.finite_float("factor", default=decoder.context / original)
    if factor <= 0:
        raise section.fault("factor", f"factor is {factor}, expected a positive number")
    betas = section.finite_float("beta_fast", default=32), section.finite_float("beta_slow", default=1)
    if min(betas) <= 0:
        raise section.fault("beta_fast", f"beta_fast and beta_slow are {betas}, expected positive numbers")
    low, high = (width * log(original / (beta * 2 * pi)) / (2 * log(theta)) for beta in betas)
    if section.flag("truncate", default=True):
        low, high = floor(low), ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high += 0.001 if low == high else 0
    count = (width + 1) // 2
    ramp = np.clip((np.arange(count, dtype=np.float32) - low) / (high - low), 0, 1)
    periods = np.float32(theta) ** (np.arange(0, width, 2, dtype=np.float32) / np.float32(width))
    frequencies = (ramp / (factor * periods) + (1 - ramp) / periods).astype(np.float32)
    return Rotation(frequencies, _yarn_scale(section, factor))


def _yarn_scale(section: Config, factor: float) -> float:
    """Return the factor of cosines and sines."""
    if section.has("attention_factor"):
        return section.finite_float("attention_factor")
    scale, all_dims = section.finite_float("mscale", default=0), section.finite_float("mscale_all_dim", default=0)
    if scale and all_dims:
        return _mscale(factor, scale) / _mscale(factor, all_dims)
    return _mscale(factor, 1)


def _mscale(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * log(factor) + 1


def _longrope(theta: float, exponents: Floats, section: Config, decoder: Decoder) -> Rotation:
    original = _original(section, decoder)
    factor = section.finite_float("factor", default=decoder.context / original)
    scale = 1.0 if factor <= 1 or original <= 1 else sqrt(1 + log(factor) / log(original))
    scale = section.finite_float("attention_factor", "short_mscale", default=scale)
    if section.finite_float("long_mscale", default=scale) != scale:
        raise section.unsupported("long_mscale", "cosines and sines that another factor scales beyond the limit")
    periods = np.float32(theta) ** exponents
    short, long = (
        (1 / (np.asarray(section.positive_floats(name, len(exponents)), np.float32) * periods)).astype(np.float32)
        for name in ("short_factor", "long_factor")
    )
    return Rotation(short, scale, long=long, limit=original)


def layer_types(config: Config, decoder: Decoder) -> list[bool]:
    """Return for each layer whether its attention has the window.

    Raises:
        DiagnosticError: CKPT0005 a layer has another kind of attention; CKPT0006 the list has another length.
    """
    rule = decoder.window_layers
    stated = None if rule in {"all", "none"} else config.list_value(decoder.window_types, decoder.layers)
    if stated is not None:
        known = {"sliding_attention": True, "full_attention": False, "local": True, "global": False}
        for each in cast("list[object]", stated):
            if not isinstance(each, str) or each not in known:
                raise config.unsupported(decoder.window_types, f"layers of the type {str(each)[:60]!r}")
        found = [known[each] for each in stated]
    elif rule == "stated":
        raise config.fault(decoder.window_types, f"{decoder.window_types} is missing")
    elif rule == "after_first":
        found = [bool(layer % decoder.window_pattern) for layer in range(decoder.layers)]
    elif rule == "pattern":
        pattern = decoder.window_pattern
        found = [bool((layer + 1) % pattern) for layer in range(decoder.layers)]
    elif rule == "upper":
        first = config.integer("max_window_layers", default=28, low=0)
        found = [layer >= first for layer in range(decoder.layers)]
    else:
        found = [rule == "all" or (rule == "even" and not layer % 2) for layer in range(decoder.layers)]
    return [each and decoder.window > 0 and decoder.window_on for each in found]


def rotated_layers(config: Config, decoder: Decoder, windowed: list[bool]) -> list[bool]:
    """Return for each layer whether it rotates queries and keys."""
    if decoder.positions != "rope":
        return [False] * decoder.layers
    if decoder.rope_layers.startswith("window"):
        return windowed if decoder.window or decoder.rope_layers == "window" else [True] * decoder.layers
    if decoder.rope_layers != "smollm3":
        return [True] * decoder.layers
    stated = config.list_value("no_rope_layers", decoder.layers)
    if stated is not None:
        return [bool(each) for each in stated]
    interval = config.integer("no_rope_layer_interval", default=4)
    return [bool((layer + 1) % interval) for layer in range(decoder.layers)]


def dense_layers(config: Config, decoder: Decoder) -> set[int]:
    """Return the layers with an MLP in a model that has mixtures of experts."""
    if not decoder.experts:
        return set()
    stated = {each for each in config.list_value("mlp_only_layers") or [] if isinstance(each, int)}
    first, last = decoder.first_expert_layer, decoder.last_expert_layer
    between = range(first, decoder.layers if last < 0 else last + 1)
    step = decoder.expert_layer_step
    layers = range(decoder.layers)
    return {layer for layer in layers if layer in stated or (layer + 1) % step or layer not in between}
