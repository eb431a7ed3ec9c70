"""Make the models in `models` and the results that Keras computes: `python make_models.py` (needs keras, tf_keras, h5py).

Weights are seeded noise. Each model is a file and `NAME.npz` with inputs `in0`, ... and outputs `out0`, ...
"""

import pathlib

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from tf_keras.src.layers.core.tf_op_layer import TFOpLambda

FOLDER = pathlib.Path(__file__).parent / "models"


def save(name, model, inputs, ending, seeded=True):
    rng = np.random.default_rng(7)
    if seeded:
        model.set_weights([np.abs(rng.normal(size=w.shape)).astype(w.dtype) * 0.4 + 0.1 for w in model.get_weights()])
    outputs = tf.nest.flatten(model(inputs if len(inputs) > 1 else inputs[0], training=False))
    arrays = {f"in{i}": x for i, x in enumerate(inputs)} | {f"out{i}": np.asarray(y) for i, y in enumerate(outputs)}
    np.savez(FOLDER / f"{name}.npz", **arrays)
    model.save(FOLDER / f"{name}{ending}")


def normal(*shape):
    return np.random.default_rng(1).normal(size=shape).astype("float32")


def convolutions(k):
    layers = k.layers
    x = layers.Input((None, None, 3), name="x")
    y = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(x)
    y = layers.BatchNormalization()(y)
    y = layers.Conv2DTranspose(2, 3, strides=2, padding="same")(y)
    y = layers.Concatenate()([y, layers.UpSampling2D(2)(layers.MaxPooling2D(2)(x))])
    return k.Model(x, [layers.GlobalAveragePooling2D()(y), layers.DepthwiseConv2D(2, activation="hard_sigmoid")(y)])


def masked_recurrence(k):
    layers = k.layers
    tokens = layers.Input((None,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 4, mask_zero=True)(tokens)
    y = layers.LSTM(3)(x)
    z = layers.Bidirectional(layers.GRU(2, return_sequences=True))(x)
    return k.Model(tokens, [y, layers.GlobalAveragePooling1D()(z)])


def attention(k):
    layers = k.layers
    x = layers.Input((None, 6), name="x")
    y = layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
    y = layers.LayerNormalization()(layers.Add()([x, y]))
    return k.Model(x, layers.Dense(4, activation="gelu")(y))


def shared_model(k):
    layers = k.layers
    inner = k.Sequential([layers.Dense(3), layers.BatchNormalization()])
    one, other = layers.Input((4,), name="one"), layers.Input((4,), name="other")
    return k.Model([one, other], layers.Subtract()([inner(one), inner(other)]))


def frozen_nested(k):
    layers = k.layers
    inner = k.Sequential([layers.Input((4,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(4)])
    inner.layers[0].trainable = False
    x = layers.Input((4,), name="x")
    return k.Model(x, inner(x))


def operations():
    x = keras.layers.Input((4, 6), name="x")
    y = keras.ops.where(x[:, 1:, ::2] > 0, x[:, :-1, 1::2] * 2 - 1, -1.0)
    return keras.Model(x, [keras.ops.softmax(y, axis=1), keras.ops.mean(keras.ops.transpose(y, (0, 2, 1)), axis=-1)])


def statistics():
    """Quantiles, diagonals and products of vectors."""
    ops = keras.ops
    x, y = keras.layers.Input((6, 4), name="x"), keras.layers.Input((6, 4), name="y")
    near = ops.concatenate([x[:, :3], y[:, 3:]], axis=1)
    return keras.Model(
        [x, y],
        [
            ops.diff(x, n=2, axis=1),
            ops.median(x, axis=1),
            ops.median(x[:, :3], axis=(1, 2), keepdims=True),
            ops.quantile(x, 0.3, axis=1),
            ops.diagonal(x, offset=1, axis1=1, axis2=2),
            ops.trace(x, axis1=1, axis2=2),
            ops.vdot(x, y),
            ops.inner(x, y[0]),
            ops.cross(x[..., :3], y[..., :3]),
            ops.kron(x[0], y[1]),
            ops.searchsorted(ops.convert_to_tensor([-0.5, 0.0, 0.5]), x[0, 0], side="right"),
            ops.isclose(x, near),
            ops.rot90(x, axes=(1, 2)),
            ops.rot90(x[:, :4], k=-2, axes=(2, 1)),
            ops.rot90(x, k=4, axes=(1, 2)),
            ops.rot90(x, k=3, axes=(1, 2)),
            ops.signbit(x * 0.0),
        ],
    )


def functions():
    x = tf_keras.layers.Input((5, 4), name="x")
    y = tf.nn.relu(x[:, 1:] * 2.0 - 0.5) + tf.reduce_mean(x, axis=1, keepdims=True)
    return tf_keras.Model(x, tf.concat([y, tf.abs(y)], axis=-1))


def merged_masks(k):
    """Sums and concatenations along time of embeddings that have masks, the second one also with one that has none."""
    layers = k.layers
    one, other = (layers.Input((4,), dtype="int32", name=name) for name in ("one", "other"))
    x, y = (layers.Embedding(9, 3, mask_zero=True)(each) for each in (one, other))
    found = [layers.Add()([x, y]), layers.Concatenate(axis=1)([x, y]), layers.Concatenate()([x, y])]
    # Keras 2 joins a mask with an input that has none only along the last axis.
    found.append(layers.Concatenate(axis=1 if k is keras else -1)([x, layers.Embedding(9, 3)(other)]))
    return k.Model([one, other], [layers.LSTM(2)(each) for each in found])


def nested_masks():
    """A sum of two models' results with masks: as the masks are made inside of the models, the file does not show them."""
    layers = keras.layers
    one, other = (layers.Input((4,), dtype="int32", name=name) for name in ("one", "other"))
    x, y = (keras.Sequential([layers.Embedding(9, 3, mask_zero=True)])(each) for each in (one, other))
    return keras.Model(
        [one, other], [layers.LSTM(2)(layers.Add()([x, y])), layers.LSTM(2)(layers.Concatenate()([x, y]))]
    )


def masked_encoder():
    """Blocks of attention over tokens with a mask: Keras 3 removes masks from the operands of attention."""
    layers = keras.layers
    tokens = layers.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 4, mask_zero=True)(tokens)
    for _ in range(2):
        x = layers.Add()([x, layers.MultiHeadAttention(2, 3)(x, x)])
    e = layers.Embedding(9, 4, mask_zero=True)(tokens)
    attention = layers.MultiHeadAttention(2, 3)
    first = attention(e, e)
    second = attention(first, e)
    p, q = layers.Input((6, 4)), layers.Input((6, 4))
    inner = keras.Model([p, q], layers.Add()([p, layers.MultiHeadAttention(2, 3)(p, q)]))
    y = inner([inner([e, e]), e])
    results = [
        layers.GlobalAveragePooling1D()(x),
        layers.MultiHeadAttention(2, 3)(e, e, use_causal_mask=True),
        layers.GRU(3)(attention(e, second)),
        layers.GRU(3)(y),
    ]
    return keras.Model(tokens, results)


def masked_directions(k):
    """Both directions over tokens with a mask: sequences are 0 where the mask is false."""
    layers = k.layers
    tokens = layers.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 3, mask_zero=True)(tokens)
    cells = (layers.LSTM, layers.GRU, layers.SimpleRNN)
    return k.Model(tokens, [layers.Bidirectional(cell(2, return_sequences=True))(x) for cell in cells])


def backend_functions():
    """Functions of `keras.backend` and `keras.activations` as layers of their own, as older versions of Keras 2 save them."""
    x, y = tf_keras.layers.Input((5, 4), name="x"), tf_keras.layers.Input((4, 3), name="y")
    relu, batch_dot = TFOpLambda(tf_keras.activations.relu), TFOpLambda(tf_keras.backend.batch_dot)
    found = [batch_dot(x, y), batch_dot(x, y, axes=(2, 1)), batch_dot(x, x, axes=2)]
    return tf_keras.Model([x, y], [*found, relu(x, 0.1, 1.0, 0.2)])


def products():
    """Products of tensors: `Dot` of all ranks, `Tensordot`, `Outer`."""
    ops = keras.ops
    x, y = keras.layers.Input((4, 5), batch_size=2, name="x"), keras.layers.Input((5, 4), batch_size=2, name="y")
    row = ops.ones((5,)) * 0.5
    found = [ops.dot(x, row), ops.dot(x, y), ops.dot(row, y), ops.dot(x, x[0, 0, 0]), ops.outer(x[0], y[1])]
    found += [ops.tensordot(x, y, axes=each) for each in ([[1, 2], [2, 1]], [[0], [0]])]
    found += [ops.tensordot(x, ops.transpose(y, (2, 1, 0)), axes=0), ops.tensordot(x, y[0], axes=1)]
    return keras.Model([x, y], found)


def gated():
    """Activations with arguments, and rare unary operations."""
    ops = keras.ops
    x = keras.layers.Input((6, 4), name="x")
    found = [ops.glu(x), ops.glu(x, axis=1), ops.threshold(x, 0.3, -2.0), ops.sparse_sigmoid(x), ops.erfc(x)]
    found += [ops.hypot(x, x[:, ::-1]), ops.stop_gradient(x), ops.copy(x), ops.conjugate(x)]
    found += [keras.activations.relu(x, 0.1, 1.0, 0.2), ops.relu(x)]
    return keras.Model(x, found)


def windows():
    """Slices, extremes, running products, and tensors that are joined, parted and filled."""
    ops = keras.ops
    x = keras.layers.Input((4, 6), batch_size=2, name="x")
    at = keras.layers.Input((4, 2), batch_size=2, dtype="int32", name="at")
    found = [
        ops.slice(x, (0, 1, 2), (2, 2, 3)),
        ops.take_along_axis(x, at, axis=2),
        ops.take_along_axis(x, at, axis=-1),
    ]
    found += [ops.amax(x), ops.amax(x, axis=(1, 2), keepdims=True), ops.amin(x, axis=-1)]
    found += [ops.cumprod(x, axis=1), ops.cumprod(x), ops.cumsum(x), ops.cumsum(at, axis=2, dtype="float32")]
    found += [ops.hstack([x, x[:, 1:]]), ops.vstack([x, x[:1, :]]), ops.hstack([x[0], x[1]])]
    found += [*ops.unstack(x, 4, axis=1), *ops.unstack(x), ops.broadcast_to(x[:, :1], (3, 2, 4, 6))]
    found += [ops.full_like(x, 1.5), ops.full_like(at, 3), ops.full_like(x, 2, dtype="int32")]
    return keras.Model([x, at], found)


def functions_with_defaults():
    """Functions of TensorFlow whose default arguments differ from those of Keras 3."""
    x, y = tf_keras.layers.Input((5, 4), name="x"), tf_keras.layers.Input((4, 3), name="y")
    k = tf_keras.backend
    found = [tf.cumsum(x), tf.cumsum(x, 1), tf.math.cumprod(x), *tf.unstack(x, axis=1), *tf.unstack(x, 4, -1)]
    found += [k.batch_dot(x, y), k.batch_dot(x, y, axes=(2, 1)), k.batch_dot(x, x, axes=2), k.batch_dot(x, x[:, 0])]
    found += [tf.tensordot(x, y[0], 1), tf.stop_gradient(x), tf.identity(x), tf.math.erfc(x)]
    found += [tf.broadcast_to(x[:1], (3, 5, 4)), tf_keras.activations.relu(x, 0.1, 1.0, 0.2)]
    return tf_keras.Model([x, y], found)


def adaptive_pooling():
    """Windows of unequal sizes, and of equal ones."""
    layers = keras.layers
    x = layers.Input((7, 8, 3), name="x")
    found = [layers.AdaptiveAveragePooling2D((3, 4))(x), layers.AdaptiveMaxPooling2D((3, 5))(x)]
    found.append(layers.AdaptiveMaxPooling2D((7, 2))(x))
    return keras.Model(x, [*found, layers.AdaptiveAveragePooling1D(3, data_format="channels_first")(x[..., 0])])


def lookups():
    """Integers of a vocabulary, a mask token and other integers, in all modes that need no statistics."""
    x = keras.layers.Input((5,), dtype="int64", name="x")
    options = [{"mask_token": 0}, {"num_oov_indices": 3}, {"mask_token": 0, "output_mode": "multi_hot"}]
    options.append({"num_oov_indices": 2, "output_mode": "count", "max_tokens": 9, "pad_to_max_tokens": True})
    return keras.Model(x, [keras.layers.IntegerLookup(vocabulary=[4, 7, 2], **each)(x) for each in options])


def reversible_embeddings():
    """Tables that are also the last layer: shared with a limit, and with a kernel of their own."""
    layers = keras.layers
    tokens = layers.Input((4,), dtype="int32", name="tokens")
    shared = layers.ReversibleEmbedding(9, 3, mask_zero=True, logit_soft_cap=2.0)
    own = layers.ReversibleEmbedding(9, 3, tie_weights=False)
    x = layers.LSTM(3, return_sequences=True)(shared(tokens))
    return keras.Model(tokens, [shared(x, reverse=True), own(layers.Dense(3)(own(tokens)), reverse=True)])


def spectrograms():
    """Bands of the mel scale, and all parts of a spectrum (needs scipy)."""
    layers = keras.layers
    x = keras.layers.Input((None,), name="x")
    mel = layers.MelSpectrogram(fft_length=64, sequence_stride=24, num_mel_bins=8, sampling_rate=8000)
    sums = {"sequence_length": 40, "window": "hamming", "power_to_db": False, "mag_exp": 1.5}
    found = [mel(x), layers.MelSpectrogram(64, 16, num_mel_bins=6, sampling_rate=4000, **sums)(x)]
    frames = keras.layers.Input((None, 2), name="frames")
    for i, mode in enumerate(("log", "magnitude", "psd", "real", "imag", "angle", "stft")):
        options = {"padding": "same", "expand_dims": True} if i % 2 else {"frame_step": 10, "fft_length": 64}
        found.append(layers.STFTSpectrogram(mode, 32, **options)(frames))
    return keras.Model([x, frames], found)


def main():
    images, tokens = normal(2, 6, 8, 3), np.array([[1, 2, 0, 3, 0], [4, 5, 6, 7, 8]], "int32")
    for name, k in (("", keras), ("_keras2", tf_keras)):
        save(f"convolutions{name}", convolutions(k), [images], ".keras" if k is keras else ".h5")
        save(f"masked_recurrence{name}", masked_recurrence(k), [tokens], ".h5" if k is keras else ".keras")
        save(f"attention{name}", attention(k), [normal(2, 5, 6)], ".keras" if k is keras else ".h5")
        save(
            f"shared_model{name}", shared_model(k), [normal(2, 4), normal(2, 4) + 1], ".keras" if k is keras else ".h5"
        )
        save(f"frozen_nested{name}", frozen_nested(k), [normal(2, 4)], ".h5")
    save("operations", operations(), [normal(2, 4, 6)], ".keras")
    save("functions_keras2", functions(), [normal(2, 5, 4)], ".h5")
    rare()
    refused()


def rare():
    """Operations that few models have."""
    tokens = [np.array([[1, 2, 0, 0], [4, 0, 0, 0]], "int32"), np.array([[1, 0, 3, 0], [4, 5, 6, 7]], "int32")]
    save("merged_masks", merged_masks(keras), tokens, ".keras")
    save("merged_masks_keras2", merged_masks(tf_keras), tokens, ".h5")
    save("nested_masks", nested_masks(), tokens, ".keras")
    save("statistics", statistics(), [normal(2, 6, 4), normal(2, 6, 4)[:, ::-1] - 0.1], ".keras")
    ids = [np.array([[1, 4, 2, 0, 0, 0], [3, 1, 0, 2, 5, 0]], "int32")]
    save("masked_encoder", masked_encoder(), ids, ".keras")
    save("masked_directions_keras2", masked_directions(tf_keras), ids, ".h5")
    save("backend_functions_keras2", backend_functions(), [normal(2, 5, 4), normal(2, 4, 3)], ".h5")
    save("products", products(), [normal(2, 4, 5), normal(2, 5, 4) + 1], ".keras")
    save("gated", gated(), [normal(2, 6, 4)], ".keras")
    at = np.array([[[0, 5], [1, 1], [2, 4], [3, 0]]] * 2, "int32")
    save("windows", windows(), [normal(2, 4, 6), at], ".keras")
    save("adaptive_pooling", adaptive_pooling(), [normal(2, 7, 8, 3)], ".keras")
    save("lookups", lookups(), [np.array([[4, 0, 7, 5, -1], [2, 2, 0, 8, 4]])], ".keras")
    save("reversible_embeddings", reversible_embeddings(), tokens[:1], ".keras")
    save("spectrograms", spectrograms(), [normal(2, 200), normal(2, 90, 2)], ".keras", seeded=False)
    save("functions_with_defaults_keras2", functions_with_defaults(), [normal(2, 5, 4), normal(2, 4, 3)], ".h5")


def refused():
    """Models that must be refused."""
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Lambda(lambda x: x + 1)])
    model.save(FOLDER / "lambda.keras")
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    model.save_weights(FOLDER / "weights_alone.weights.h5")


if __name__ == "__main__":
    main()
