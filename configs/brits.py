"""BRITS imputer of days at the published sizes (OpenMHC, imputation): Adam at a constant rate, clipped gradients."""

from wearjax.models.brits import BRITSConfig
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config() -> PretrainConfig:
    rate = 1e-3
    return PretrainConfig(
        name="brits",
        data=DataConfig(batch_size=32),
        model=BRITSConfig(),
        optimizer=OptimizerConfig(
            learning_rate=rate, beta2=0.999, weight_decay=0.0, clip_norm=1.0,
            warmup_fraction=0.0, warmup_start=1.0, final_learning_rate=rate,
        ),
        # Validation hides patches by the rule of the published validation masks, but with random numbers of JAX.
        loop=LoopConfig(
            epochs=100, validate_epochs=1.0, patience=10, validation_examples=10**9, log_every=50,
            checkpoint_every=500,
        ),
    )  # fmt: skip
