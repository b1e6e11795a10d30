"""Operators that are refused by kind, with the reason and what to do instead."""

_STRINGS = ("computes with strings", "move it before the model")
_SHAPE = ("its output shape depends on the data", "use a form of fixed shape (a mask), or move it behind the model")
_TRAINING = ("is a training step", "export the model for inference")
_RANDOM = ("draws random numbers", "pass the random tensor as an input")
_ENSEMBLE = ("is a classical-ML operator", "keep it outside the tensor program")

REFUSED: dict[tuple[str, str], tuple[str, str]] = {
    **{("", n): _STRINGS for n in ("StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch")},
    **{("", n): _SHAPE for n in ("NonZero", "Unique", "NonMaxSuppression")},
    **{("", n): _RANDOM for n in ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")},
    ("", "ImageDecoder"): ("decodes compressed images", "decode before the model"),
    **{("ai.onnx.preview.training", n): _TRAINING for n in ("Gradient",)},
    **{
        ("ai.onnx.ml", n): _ENSEMBLE
        for n in ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "SVMClassifier", "SVMRegressor", "LinearClassifier",
                  "LinearRegressor", "LabelEncoder", "DictVectorizer", "CategoryMapper", "CastMap", "ZipMap", "OneHotEncoder",
                  "FeatureVectorizer", "Imputer", "Normalizer", "Scaler")
    },
}  # fmt: skip
