"""A small WBM, to learn on two CPU cores in a few minutes."""

from wearjax.models.wbm import WBMConfig
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config() -> PretrainConfig:
    return PretrainConfig(
        name="demo_wbm",
        data=DataConfig(batch_size=32),
        model=WBMConfig(
            dim=64,
            tokenizer_hidden=32,
            depth=2,
            d_state=32,
            headdim=32,
            projection_dim=64,
            dropout=0.1,
        ),
        optimizer=OptimizerConfig(learning_rate=2e-3, weight_decay=1e-4, warmup_fraction=0.1, clip_norm=1.0),
        loop=LoopConfig(
            steps=200, log_every=20, validate_every=50, validation_examples=32, checkpoint_every=50
        ),
    )
