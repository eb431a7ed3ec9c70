"""Make the models in `models` and the results that Keras computes: `python make_models.py` (needs keras, tf_keras, h5py).

Weights are seeded noise. Each model is a file and `NAME.npz` with inputs `in0`, ... and outputs `out0`, ...
"""

import pathlib

import keras
import numpy as np
import tensorflow as tf
import tf_keras

FOLDER = pathlib.Path(__file__).parent / "models"


def save(name, model, inputs, ending):
    rng = np.random.default_rng(7)
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


def functions():
    x = tf_keras.layers.Input((5, 4), name="x")
    y = tf.nn.relu(x[:, 1:] * 2.0 - 0.5) + tf.reduce_mean(x, axis=1, keepdims=True)
    return tf_keras.Model(x, tf.concat([y, tf.abs(y)], axis=-1))


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
    refused()


def refused():
    """Models that must be refused."""
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Lambda(lambda x: x + 1)])
    model.save(FOLDER / "lambda.keras")
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    model.save_weights(FOLDER / "weights_alone.weights.h5")


if __name__ == "__main__":
    main()
