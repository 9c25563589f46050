"""The config: precedence, provenance, and one line for whatever is wrong."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from asap_project.config import Config, ConfigError, Loaded, load
from asap_project.config.derived import kept, own_address, scraped
from asap_project.config.options import options
from asap_project.config.printing import mask, shown

PORT = "query_engine.http_port"


def setting(loaded: Loaded, key: str) -> tuple[Any, str]:
    return next((item.value, item.source) for item in loaded.settings if item.option.key == key)


def refused(argv: list[str], folder: Path, env: Mapping[str, str] | None = None) -> str:
    """The line that such a start is refused with."""
    with pytest.raises(ConfigError) as error:
        load(argv, env or {}, folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def write(folder: Path, text: str, name: str = "config.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_it_works(tmp_path: Path) -> None:
    loaded = load([], {}, tmp_path)
    assert loaded.config == Config()
    assert loaded.config.query_engine.http_port == 8088
    assert loaded.config.engine.minibatch.window_size == 15_000
    assert loaded.warnings == ()


def test_the_later_source_wins_and_is_named(tmp_path: Path) -> None:
    assert setting(load([], {}, tmp_path), PORT) == (8088, "default")
    write(tmp_path, "query_engine: {http_port: 1}")
    assert setting(load([], {}, tmp_path), PORT) == (1, "file config.yaml")
    env = {"ASAP_QUERY_ENGINE_HTTP_PORT": "2"}
    assert setting(load([], env, tmp_path), PORT) == (2, "env ASAP_QUERY_ENGINE_HTTP_PORT")
    flags = ["--query-engine.http-port", "3"]
    assert setting(load(flags, env, tmp_path), PORT) == (3, "flag --query-engine.http-port")


def test_sources_merge_key_by_key(tmp_path: Path) -> None:
    write(tmp_path, "head: {retention: 1h, max_bytes: 1GiB}")
    head = load(["--head.retention=3h"], {}, tmp_path).config.head
    assert (head.retention, head.max_bytes) == (10_800_000, 1 << 30)


def test_a_mapping_is_set_alike_in_file_environment_and_flag(tmp_path: Path) -> None:
    path = write(tmp_path, "query_engine: {prometheus_external_labels: {cluster: eu}}")
    text = "{cluster: eu}"
    for argv, environ in (
        (["--config", str(path)], {}),
        (["--query-engine.prometheus-external-labels", text], {}),
        ([], {"ASAP_QUERY_ENGINE_PROMETHEUS_EXTERNAL_LABELS": text}),
    ):
        assert load(argv, environ, tmp_path).config.query_engine.prometheus_external_labels == {"cluster": "eu"}


def test_the_flag_names_the_file_before_the_environment_does(tmp_path: Path) -> None:
    write(tmp_path, "data_dir: a", "a.yaml")
    write(tmp_path, "data_dir: b", "b.yaml")
    env = {"ASAP_CONFIG": "b.yaml"}
    assert load([], env, tmp_path).config.data_dir == "b"
    assert load(["--config", "a.yaml"], env, tmp_path).config.data_dir == "a"
    assert load(["--config=a.yaml"], env, tmp_path).config.data_dir == "a"


def test_a_named_file_that_is_absent_is_an_error(tmp_path: Path) -> None:
    assert "absent.yaml: cannot be read: No such file" in refused(["--config", "absent.yaml"], tmp_path)


def test_an_empty_file_and_empty_sections_set_nothing(tmp_path: Path) -> None:
    write(tmp_path, "")
    assert load([], {}, tmp_path).config == Config()
    write(tmp_path, "head:\nscrape:\n")
    assert load([], {}, tmp_path).config == Config()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("query_engine: {htp_port: 1}",
         "query_engine.htp_port (file {file}): is no option; did you mean query_engine.http_port?"),
        ("haed: {retention: 1h}", "haed (file {file}): is no option; did you mean head?"),
        ("query_engine.http_port: 1", "query_engine.http_port (file {file}): is no option; did you mean"),
        ("database: postgresql://u:secret@h/x", "database = postgresql://u:***@h/x (file {file}): is a section; set"),
        ("head: 5", "head = 5 (file {file}): is a section; set one of head.retention, head.max_bytes"),
        ("head: {retention: 1h}\nhead: {retention: 2h}", "{file}: is no YAML: head is set twice"),
        ("[1, 2]", "{file}: should be a mapping of sections"),
        ("a: [", "{file}: is no YAML: "),
        ("{? [a, b] : 1}", "{file}: is no YAML: "),
        ("[" * 100_000, "{file}: is no YAML: "),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_nearest_known_key(tmp_path: Path, text: str, line: str) -> None:
    path = write(tmp_path, text)
    assert refused(["--config", str(path)], tmp_path).startswith(line.format(file=path))


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--query-engine.http-port=x"],
         "query_engine.http_port = x (flag --query-engine.http-port): should be a valid integer, unable to parse "
         "string as an integer; default: 8088"),
        (["--head.retention", "15"], "head.retention = 15 (flag --head.retention): should be a duration with a unit"),
        (["--head.retention", "21d"], "head.retention = 21d (flag --head.retention): should be at most 20d"),
        (["--log.max-bytes", "1XB"], "log.max_bytes = 1XB (flag --log.max-bytes): should be a size"),
        (["--log.max-bytes", "1MiB"], "log.max_backlog = 1GiB (default): should not be larger than log.max_bytes"),
        (["--engine.minibatch.window-size", "0"],
         "engine.minibatch.window_size = 0 (flag --engine.minibatch.window-size): should be greater than 0"),
        (["--engine.minibatch.allowed-lateness", "2h"],
         "engine.minibatch.allowed_lateness = 2h (flag --engine.minibatch.allowed-lateness): should not be longer"),
        (["--kafka.brokers", "a:1"], "kafka.brokers = a:1 (flag --kafka.brokers): should be a list"),
        (["--kafka.brokers", "["], "kafka.brokers (flag --kafka.brokers): should be a list or a mapping in JSON"),
        (["--query-engine.prometheus-external-labels", "{a: 5}"],
         "query_engine.prometheus_external_labels = {\"a\": 5} (flag --query-engine.prometheus-external-labels): "
         "a should be a valid string; default: auto"),
        (["--query-engine.prometheus-external-labels", "never"], "query_engine.prometheus_external_labels = never "
         "(flag --query-engine.prometheus-external-labels): should be a mapping; default: auto"),
        (["--data-dir"], "--data-dir: a value should follow"),
        (["--data-dir", ""], "data_dir = \"\" (flag --data-dir): String should have at least 1 character"),
        (["--database.url", "mysql://u:secret@h/x"],
         "database.url = mysql://u:***@h/x (flag --database.url): should be postgresql://user:password@host/name"),
        (["--database.url", "postgresql://h/x?nonsense=1"], "database.url = postgresql://h/x?nonsense=1 (flag"),
        (["--query-engine.prometheus-server", "prometheus:9090"],
         "query_engine.prometheus_server = prometheus:9090 (flag --query-engine.prometheus-server): should be a URL"),
        (["--query-engine.prometheus-ca-file", "/absent"],
         "query_engine.prometheus_ca_file = /absent (flag --query-engine.prometheus-ca-file): is not there"),
        (["--scrape", "[{job: a, targets: [b]}]"], "scrape = [{\"job\": \"a\", \"targets\": [\"b\"]}] (flag --scrape): "
         "[0].targets[0] should be host:port"),
    ],
)  # fmt: skip
def test_a_bad_value_is_one_line_with_key_value_source_and_remedy(tmp_path: Path, argv: list[str], line: str) -> None:
    assert refused(argv, tmp_path).startswith(line)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("{expr: x, accumulators: [sum]}", "[0] should have exactly one of by, without and series: true"),
        ("{expr: x, by: [a], without: [b], accumulators: [sum]}", "[0] should have exactly one of by, without"),
        ("{expr: x, by: [a], accumulators: [avg]}", "[0].accumulators[0] no accumulator avg; there are sum, count,"),
        ("{expr: x, by: [a], accumulators: [kl]}", "[0].accumulators[0] no accumulator kl; did you mean kll?"),
        ("{expr: x, by: [a], accumulators: ['kll(q=3)']}", "[0].accumulators[0] 'q' is no parameter of kll; it has k"),
        ("{expr: x, by: [a], accumulators: ['kll(k=3)']}", "[0].accumulators[0] k should be between 8 and 4096, not"),
        ("{expr: x, by: [a], accumulators: [kll, 'kll(k=200)']}", "[0].accumulators names one thing twice"),
        ("{expr: x, by: [a], accumulators: ['kll(k=20)'], accuracy_sla: 0.99}",
         "[0] kll(k=20) answers quantile within 0.1247 rank at 0.99 confidence, not within 0.01"),
        ("{expr: x, by: [a], accumulators: [le], accuracy_sla: 0.99}", "[0] le answers quantile within bucket, not"),
        ("{expr: x, by: [a], accumulators: [sum], accuracy_sla: 1}", "[0].accuracy_sla should be less than 1"),
        ("{expr: x, by: [a], accumulators: []}", "[0].accumulators it should have at least 1 item"),
        ("{expr: x, by: [a, a], accumulators: [sum]}", "[0].by names one thing twice"),
        ("{expr: x, by: a, accumulators: [sum]}", "[0].by should be a list"),
        ("{by: [a], accumulators: [sum]}", "[0].expr is missing"),
        ("{expr: x, by: [a], accumulators: [sum], widht: 15s}", "[0].widht is no key here; did you mean width?"),
        ("{expr: x, by: [a], accumulators: [sum], width: 20s}", "[0].width should be a multiple of engine.minibatch."),
        ("{expr: x, by: [a], accumulators: [sum], retention: 1s}", "[0].retention should not be shorter than its"),
        ("x", "[0] should be a mapping"),
    ],
)  # fmt: skip
def test_an_aggregation_that_cannot_be_kept_is_refused(tmp_path: Path, item: str, text: str) -> None:
    assert text in refused(["--aggregations", f"[{item}]"], tmp_path)


def test_aggregations_are_read_from_every_source(tmp_path: Path) -> None:
    first = "{expr: 'rate(c[5m])', by: [job], accumulators: [sum, count], width: 30s}"
    text = f"[{first}, {{expr: g, series: true, accumulators: [max]}}]"
    write(tmp_path, f"aggregations: {text}")
    from_file = load([], {}, tmp_path).config.aggregations
    assert from_file == load([], {"ASAP_AGGREGATIONS": text}, Path("/")).config.aggregations
    assert from_file == load(["--aggregations", text], {}, Path("/")).config.aggregations
    assert [(item.expr, item.by, item.width, item.retention) for item in from_file] == [
        ("rate(c[5m])", ("job",), 30_000, 86_400_000),
        ("g", None, None, 86_400_000),
    ]


def test_an_accuracy_chooses_the_parameters_that_are_left_out(tmp_path: Path) -> None:
    items = "[{expr: g, series: true, accumulators: [sum, quantile, kll, 'req( k = 64 )'], accuracy_sla: 0.993}]"
    (item,) = kept(load(["--aggregations", items], {}, tmp_path).config)
    assert item.accumulators == ("sum", "quantile(alpha=0.007)", "kll(k=387)", "req(k=64)")


def test_a_width_left_out_is_the_window_size(tmp_path: Path) -> None:
    flags = ["--engine.minibatch.window-size=1m", "--aggregations=[{expr: g, series: true, accumulators: [max]}]"]
    assert [item.width for item in kept(load(flags, {}, tmp_path).config)] == [60_000]


def test_the_demo_brings_its_aggregations(tmp_path: Path) -> None:
    config = load(["--demo.enabled"], {}, tmp_path).config
    assert {(item.expr, item.by) for item in kept(config)} >= {("sensor_reading", ("pattern",))}


def test_we_scrape_ourselves_where_we_listen_unless_told_not_to(tmp_path: Path) -> None:
    other = "[{job: node, targets: ['n:9100']}]"
    jobs = scraped(load(["--query-engine.http-host=0.0.0.0", "--scrape", other], {}, tmp_path).config)
    assert [(job.job, job.targets) for job in jobs] == [("asap", ("127.0.0.1:8088",)), ("node", ("n:9100",))]
    assert scraped(load(["--ingest.self-scrape=false"], {}, tmp_path).config) == ()
    assert own_address(load(["--query-engine.http-host=::1"], {}, tmp_path).config) == "[::1]:8088"


def test_a_switch_may_stand_alone_or_take_a_value(tmp_path: Path) -> None:
    assert load(["--demo.enabled"], {}, tmp_path).config.demo.enabled
    assert load(["--demo.enabled", "--data-dir", "x"], {}, tmp_path).config.demo.enabled
    assert not load(["--demo.enabled", "false"], {}, tmp_path).config.demo.enabled


def test_an_unknown_name_in_the_environment_is_a_warning(tmp_path: Path) -> None:
    env = {"ASAP_QUERY_ENGINE_HTTPPORT": "1", "ASAP_CONFIG": "", "ASAP": "x", "OTHER": "y"}
    assert load([], env, tmp_path).warnings == (
        "ASAP_QUERY_ENGINE_HTTPPORT in the environment is no option and is not read; "
        "did you mean ASAP_QUERY_ENGINE_HTTP_PORT?",
    )


@pytest.mark.parametrize(
    ("argv", "eager", "text"),
    [
        (["--mode", "cluster"], "1", "mode = cluster (flag --mode): contradicts CELERY_TASK_ALWAYS_EAGER='1'"),
        ([], "false", "mode = single-node (default): contradicts CELERY_TASK_ALWAYS_EAGER='false'"),
        ([], "perhaps", "CELERY_TASK_ALWAYS_EAGER='perhaps' in the environment is neither true nor false"),
    ],
)
def test_mode_and_celerys_switch_must_agree(tmp_path: Path, argv: list[str], eager: str, text: str) -> None:
    assert text in refused(argv, tmp_path, {"CELERY_TASK_ALWAYS_EAGER": eager})


def test_celerys_switch_may_say_what_the_mode_says(tmp_path: Path) -> None:
    assert load([], {"CELERY_TASK_ALWAYS_EAGER": "True"}, tmp_path).config.mode == "single-node"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--engine.type", "arroyo"], "engine.type = arroyo (flag --engine.type): this engine is not built yet"),
        (["--engine.type", "mock"], "engine.type = mock (flag --engine.type): this engine is not built yet"),
    ],
)
def test_a_part_that_is_not_built_is_refused_with_a_sentence(tmp_path: Path, argv: list[str], text: str) -> None:
    assert refused(argv, tmp_path).startswith(text)


CLUSTER = {
    "ASAP_MODE": "cluster",
    "ASAP_REDIS_LOG_URLS": '["redis://log-0:6379/0", "rediss://log-1:6379/0"]',
    "ASAP_REDIS_BROKER_URL": "redis://broker:6379/0",
    "ASAP_DATABASE_URL": "postgresql://asap:word@postgres/asap",
}


def test_a_cluster_with_redis_and_postgresql_is_right(tmp_path: Path) -> None:
    config = load([], CLUSTER, tmp_path).config
    assert config.redis.log_urls == ("redis://log-0:6379/0", "rediss://log-1:6379/0")
    assert (config.cluster.lease, config.cluster.segment, config.cluster.linger) == (30_000, 600_000, 10)


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ("ASAP_REDIS_LOG_URLS", "redis.log_urls = [] (default): a cluster keeps its log in Redis; name a server"),
        ("ASAP_REDIS_BROKER_URL", 'redis.broker_url = "" (default): a cluster\'s ticks go over Redis; name a server'),
        ("ASAP_DATABASE_URL", 'database.url = "" (default): a cluster keeps summaries in PostgreSQL; set it to'),
    ],
)
def test_a_cluster_without_one_of_its_servers_is_refused(tmp_path: Path, env: str, text: str) -> None:
    assert refused([], tmp_path, {name: value for name, value in CLUSTER.items() if name != env}).startswith(text)


@pytest.mark.parametrize(
    ("env", "value", "text"),
    [
        ("ASAP_REDIS_LOG_URLS", '["log:6379"]', "should be redis://host:6379/0"),
        ("ASAP_REDIS_LOG_URLS", '["redis://a:1", "redis://a:1"]', "names one server twice"),
        ("ASAP_REDIS_BROKER_URL", "amqp://broker", "should be redis://host:6379/0"),
        ("ASAP_REDIS_BROKER_URL", "redis://log-0:6379/0", "is one of redis.log_urls"),
        ("ASAP_CLUSTER_HEALTH_PORT", "8088", "is query_engine.http_port; choose another"),
        ("ASAP_CLUSTER_WORKER_NAME", "a b", "should match pattern"),
        ("ASAP_CLUSTER_LINGER", "2s", "should be less than or equal to 1000"),
    ],
)
def test_a_servers_name_and_a_clusters_numbers_are_checked(tmp_path: Path, env: str, value: str, text: str) -> None:
    assert text in refused([], tmp_path, CLUSTER | {env: value})


def test_every_option_has_a_help_and_names_of_its_own() -> None:
    found = options().values()
    assert all(option.help.endswith((".", ":")) or option.help for option in found)
    assert len({option.env for option in found}) == len({option.flag for option in found}) == len(found)


def test_every_default_can_be_set_by_its_own_text_in_every_source(tmp_path: Path) -> None:
    for option in options().values():
        text = option.default if isinstance(option.default, str) else shown(option.default)
        assert load([option.flag, text], {}, tmp_path).config == Config(), option.key
        assert load([], {option.env: text}, tmp_path).config == Config(), option.key


def test_the_defaults_written_to_a_file_are_the_defaults(tmp_path: Path) -> None:
    write(tmp_path, yaml.safe_dump(Config().model_dump(mode="json")))
    assert load([], {}, tmp_path).config == Config()


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("http://user:pa:ss@host:9090/x", "http://user:***@host:9090/x"),
        ("redis://token@host", "redis://***@host"),
        ("postgresql://h/db?user=a&password=secret&x=1", "postgresql://h/db?user=a&password=***&x=1"),
        ("http://host:9090/path", "http://host:9090/path"),
        ("./data", "./data"),
    ],
)
def test_credentials_are_masked_when_printed(text: str, masked: str) -> None:
    assert mask(text) == masked
    assert shown([text]) == f'["{masked}"]'


def test_no_credentials_in_an_error(tmp_path: Path) -> None:
    line = refused([], tmp_path, {"ASAP_QUERY_ENGINE_PROMETHEUS_SERVER": "ftp://me:secret@host"})
    assert "secret" not in line
    assert re.search(r"ftp://me:\*\*\*@host \(env ASAP_QUERY_ENGINE_PROMETHEUS_SERVER\)", line)


def test_the_config_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().head.retention = 1  # type: ignore[misc]
