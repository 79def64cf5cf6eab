"""SegRNN forecaster of hours at the published sizes (OpenMHC, forecasting): Adam, the best epoch counts."""

from wearjax.models.segrnn import SegRNNConfig
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config() -> PretrainConfig:
    rate = 1e-3
    return PretrainConfig(
        name="segrnn_forecast",
        data=DataConfig(batch_size=64),
        model=SegRNNConfig(),
        optimizer=OptimizerConfig(
            learning_rate=rate, beta2=0.999, weight_decay=0.0,
            warmup_fraction=0.0, warmup_start=1.0, final_learning_rate=rate,
        ),
        loop=LoopConfig(
            epochs=50, validate_epochs=1.0, patience=10, validation_examples=10**9, log_every=50,
            checkpoint_every=500,
        ),
    )  # fmt: skip
