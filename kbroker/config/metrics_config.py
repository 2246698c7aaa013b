"""MetricsConfig: measuring, and what clients report.

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import ConfigType


@config_group
class MetricsConfig(ConfigGroup):
    """Measuring, and what clients report."""

    metric_reporters: tuple[str, ...] = define(
        (),
        "Java classes that report metrics.",
        importance="low",
        dynamic="cluster-wide",
        support="not yet",
    )
    metrics_num_samples: int = define(
        2, "Samples a metric is computed from.", at_least=1, importance="low", support="accepted"
    )
    metrics_sample_window_ms: int = define(
        30_000,
        "Length of a sample.",
        type=ConfigType.LONG,
        at_least=1,
        importance="low",
        support="accepted",
    )
    metrics_recording_level: str = define(
        "INFO", "Highest level of metrics that are kept.", importance="low", support="accepted"
    )
    auto_include_jmx_reporter: bool = define(
        True, "Report through JMX even when not named.", importance="low", support="accepted"
    )
    kafka_metrics_reporters: tuple[str, ...] = define(
        (), "Java classes that report the older metrics.", importance="low", support="not yet"
    )
    kafka_metrics_polling_interval_secs: int = define(
        10, "How often these are asked.", at_least=1, importance="low", support="accepted"
    )
    telemetry_max_bytes: int = define(
        1_048_576,
        "Largest metrics push of a client.",
        at_least=1,
        importance="low",
        support="not yet",
    )
