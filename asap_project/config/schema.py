"""Every option: its name, type, default and meaning, declared once.

Names are the keys of the file. Durations are integer milliseconds and sizes integer bytes once loaded.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from asap_project.config.clients import Token, User
from asap_project.config.items import Aggregation, Scrape
from asap_project.config.units import ByteSize, DurationMs, Pattern, Whole, duration_ms, size_bytes

SECRET: dict[str, Any] = {"secret": True}
"""Marks an option whose value may hold credentials."""

NonEmpty = Annotated[str, StringConstraints(min_length=1)]
WorkerName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{0,128}$")]


class Section(BaseModel):
    """A level of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Minibatch(Section):
    window_size: DurationMs = Field(duration_ms("15s"), gt=0, description="Default pane width.")
    batch_size: Whole = Field(
        10_000,
        ge=1,
        description="Log entries that a cluster's worker reads at a time; one node's head is never behind.",
    )
    allowed_lateness: DurationMs = Field(
        duration_ms("15s"), ge=0, description="How long after its end a pane is sealed."
    )
    acceptance_age: DurationMs = Field(
        duration_ms("1h"), gt=0, description="Samples older than this are refused; younger ones count, however late."
    )
    max_reach: DurationMs = Field(
        duration_ms("1h"), gt=0, description="Longest reach that is kept; what looks further back is not covered."
    )
    threads: Whole = Field(1, ge=1, le=256, description="Threads that summarise.")
    hash_seed: Whole = Field(0, ge=0, lt=2**64, description="Seed of the label hash. Fixed at install.")
    shards: Whole = Field(16, ge=1, le=4096, description="Fixed parts of all series. Fixed at install.")


class Arroyo(Section):
    parallelism: Whole = Field(4, ge=1, description="Parallel tasks of the external engine.")
    checkpoint_interval: DurationMs = Field(duration_ms("30s"), gt=0, description="Time between its checkpoints.")
    state_dir: NonEmpty = Field("/data/checkpoints", description="Where it keeps its checkpoints.")


class Engine(Section):
    type: Literal["minibatch", "arroyo", "mock"] = Field("minibatch", description="Who turns samples into summaries.")
    minibatch: Minibatch = Minibatch()
    arroyo: Arroyo = Arroyo()


class Head(Section):
    retention: DurationMs = Field(
        duration_ms("2h"), ge=0, description="How far back the head tier answers; 0 turns the head tier off."
    )
    max_bytes: ByteSize = Field(
        size_bytes("4GiB"),
        ge=1,
        description="Memory of the recent raw samples; above it writes are refused with 503. In a cluster all shards' "
        "together, which each query engine holds.",
    )


class Log(Section):
    max_bytes: ByteSize = Field(
        size_bytes("16GiB"),
        ge=1,
        description="Bytes of log that are retained; above it writes are refused with 503. In a cluster all shards' "
        "together, an equal part for each.",
    )
    max_backlog: ByteSize = Field(
        size_bytes("1GiB"),
        ge=1,
        description="Log bytes not yet read by a tick; above it writes are refused with 503. In a cluster all shards' "
        "together, an equal part for each.",
    )
    min_free_disk: ByteSize = Field(
        size_bytes("1GiB"), ge=0, description="Free disk space; below it writes are refused with 503."
    )
    fsync: DurationMs = Field(
        duration_ms("1s"), ge=0, description="Time between syncs of the log, lost in a power cut; 0 syncs every write."
    )


class Database(Section):
    url: str = Field(
        "",
        description="postgresql://user:password@host/name, which a cluster needs; empty: SQLite in data_dir.",
        json_schema_extra=SECRET,
    )


class Redis(Section):
    log_urls: tuple[NonEmpty, ...] = Field(
        (),
        description="Redis servers that hold the log and the open panes of a cluster: shard s is on number s mod n. "
        "Fixed at install.",
        json_schema_extra=SECRET,
    )
    broker_url: str = Field(
        "", description="Redis server of Celery in a cluster; nothing is lost with it.", json_schema_extra=SECRET
    )
    wait_replicas: Whole = Field(
        0, ge=0, le=16, description="Replicas of a Redis server that must have a write before it is acknowledged."
    )
    max_summary_bytes: ByteSize = Field(
        size_bytes("4GiB"),
        ge=1,
        description="Partial summaries kept in Redis by all shards while PostgreSQL is away; the oldest go first.",
    )


class ReplicaPairs(Section):
    cluster_label: NonEmpty = Field("cluster", description="Label that names a pair of Prometheus replicas.")
    replica_label: NonEmpty = Field(
        "__replica__", description="Label that tells the replicas apart; one is kept, and the label is removed."
    )
    timeout: DurationMs = Field(
        duration_ms("30s"), gt=0, description="Silence of the elected replica after which the other takes over."
    )


class Ingest(Section):
    max_body: ByteSize = Field(size_bytes("32MiB"), ge=1, description="Largest body of a write, packed or unpacked.")
    max_future: DurationMs = Field(duration_ms("1m"), ge=0, description="Samples further ahead than this are refused.")
    max_labels: Whole = Field(64, ge=1, description="Most labels of a series.")
    max_label_name_length: Whole = Field(1024, ge=1, description="Longest label name, in bytes.")
    max_label_value_length: Whole = Field(4096, ge=1, description="Longest label value, in bytes.")
    self_scrape: bool = Field(
        True, description="Scrape our own /metrics, as job asap; with a prometheus_server that is its to do."
    )
    ha: ReplicaPairs = ReplicaPairs()


class QueryEngine(Section):
    http_host: NonEmpty = Field("127.0.0.1", description="Address that the HTTP API listens on.")
    http_port: Whole = Field(8088, ge=1, le=65535, description="Port that the HTTP API listens on.")
    prometheus_scrape_interval: DurationMs = Field(
        duration_ms("15s"), gt=0, description="Usual scrape interval of the senders, and that of our own scrape."
    )
    forward_unsupported_queries: bool = Field(
        True, description="Send what cannot be answered here to prometheus_server, if there is one."
    )
    prometheus_server: str = Field(
        "", description="The upstream, such as http://prometheus:9090; empty: none.", json_schema_extra=SECRET
    )
    prometheus_timeout: DurationMs = Field(duration_ms("30s"), gt=0, description="Longest wait for the upstream.")
    prometheus_parts: Literal["auto", "always", "never"] = Field(
        "auto",
        description="Whether the upstream is asked for parts of a query, or for whole ones: auto asks it who it is.",
    )
    prometheus_external_labels: dict[NonEmpty, str] | Literal["auto"] = Field(
        "auto", description="The upstream's external_labels, {cluster: eu}; {}: none; auto: as its own config says."
    )
    prometheus_ca_file: str = Field("", description="CA certificates for an https upstream; empty: the system's.")
    alignment: Literal["strict", "nearest"] = Field(
        "strict", description="nearest: move a whole query down to the last sealed multiple of window_size."
    )
    lookback_delta: DurationMs = Field(duration_ms("5m"), gt=0, description="How far an instant selector looks back.")
    evaluation_interval: DurationMs = Field(duration_ms("1m"), gt=0, description="Default step of subqueries.")
    experimental_functions: bool = Field(
        False, description="Allow what Prometheus calls experimental: limitk, limit_ratio, info, fill, sort_by_label, …"
    )
    delayed_name_removal: bool = Field(
        False, description="Take metric names off at the end of a query, as Prometheus' feature of that name does."
    )
    threads: Whole = Field(2, ge=1, le=256, description="Queries that are evaluated at the same time.")
    timeout: DurationMs = Field(duration_ms("2m"), gt=0, description="Longest time for a query.")
    max_samples: Whole = Field(50_000_000, ge=1, description="Most samples that a query may hold in memory.")
    max_points: Whole = Field(11_000, ge=1, description="Most steps of a range query.")
    max_depth: Whole = Field(100, ge=1, le=200, description="Deepest nesting of an expression.")
    cache_bytes: ByteSize = Field(
        size_bytes("256MiB"), ge=0, description="Memory of cached answers to range queries; 0 turns the cache off."
    )
    cors_origin: Pattern = Field(
        ".*", description="Origins of web pages that may read answers, as a regular expression; empty: none."
    )
    query_log_file: str = Field("", description="File that gets a JSON line for each query; -: stderr, empty: none.")


class Planner(Section):
    enabled: bool = Field(
        True,
        description="Whether aggregations are planned from the queries that come; those of the config are always kept.",
    )
    interval: DurationMs = Field(
        duration_ms("10m"),
        ge=1000,
        description="Time between plans of all that queries ask for; what is new is planned at the next tick.",
    )
    half_life: DurationMs = Field(
        duration_ms("6h"), ge=60_000, description="After this time without it, a query counts half in what is planned."
    )
    retire_after: DurationMs = Field(
        duration_ms("1h"),
        ge=0,
        description="How long a planned aggregation that no plan wants any more is kept, and longer while it is read.",
    )
    watch_share: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of the queries answered from summaries that are evaluated exactly too, in the background; "
        "an aggregation that answered outside its bound is taken out of service. 0: none.",
    )
    max_requirements: int = Field(
        1000,
        ge=1,
        le=100_000,
        description="So many repeated parts of queries are planned for, and so many others are counted.",
    )
    accuracy_sla: float = Field(
        0.99, gt=0, lt=1, description="Accuracy of planned sketches, 1 - error, where a workload asks for no other."
    )
    max_bytes: ByteSize = Field(
        size_bytes("4GiB"),
        ge=1,
        description="Bytes of all panes that planned aggregations keep; what saves least is not kept.",
    )
    max_cpu_share: float = Field(
        0.2,
        gt=0,
        le=1024,
        description="Share of one core that planned aggregations may take; what saves least is not kept.",
    )
    largest_share: float = Field(
        0.5, gt=0, le=1, description="Groups for each series, above which an aggregation saves too little to be kept."
    )
    retention: DurationMs = Field(
        duration_ms("24h"),
        gt=0,
        description="How long planned summaries are kept, and longer where queries look further.",
    )
    zoom_steps: tuple[DurationMs, ...] = Field(
        (duration_ms("15s"), duration_ms("1m"), duration_ms("5m")),
        min_length=1,
        description="Steps at which ranges that follow the zoom ($__rate_interval) are kept, for dashboards in files.",
    )


class Tls(Section):
    cert_file: str = Field("", description="PEM file of the certificate and its chain; empty: plain HTTP.")
    key_file: str = Field("", description="PEM file of the certificate's key, not encrypted.")


class Security(Section):
    users: tuple[User, ...] = Field(
        (),
        description="Who may log in: a list of {name, password_hash, permissions: [read, write, manage]}.",
        json_schema_extra=SECRET,
    )
    tokens: tuple[Token, ...] = Field(
        (),
        description="Bearer tokens: a list of {name, token_hash, permissions: [read, write, manage]}.",
        json_schema_extra=SECRET,
    )
    requests_per_second: Whole = Field(
        0, ge=0, le=1_000_000, description="Requests of one client in the long run; more are refused. 0: no limit."
    )
    request_burst: Whole = Field(
        100, ge=1, le=1_000_000, description="Requests that a client which was quiet may send at once."
    )
    tls: Tls = Tls()


class Kafka(Section):
    brokers: tuple[NonEmpty, ...] = Field(("localhost:9092",), description="Kafka's bootstrap servers.")
    input_topic: NonEmpty = Field("metrics-raw", description="Topic that raw samples come from.")
    output_topic: NonEmpty = Field("metrics-precomputed", description="Topic that summaries go to.")


class Replicas3(Section):
    replicas: Whole = Field(
        3,
        ge=1,
        le=256,
        description="Query engines of a cluster, for whoever starts them one by one; one is started where all roles "
        "run together.",
    )


class Replicas5(Section):
    replicas: Whole = Field(
        5, ge=1, le=256, description="Streaming workers of a cluster; so many are started where all roles run together."
    )


class Cluster(Section):
    query_engine: Replicas3 = Replicas3()
    streaming_workers: Replicas5 = Replicas5()
    linger: DurationMs = Field(
        duration_ms("10ms"), ge=0, le=1000, description="How long a write waits for others to be appended with it."
    )
    lease: DurationMs = Field(
        duration_ms("30s"), ge=3000, description="How long a worker that is silent keeps its shards from the others."
    )
    segment: DurationMs = Field(
        duration_ms("10m"),
        ge=1000,
        description="Length of a log's segments, each read alone and trimmed as a whole. Fixed at install.",
    )
    worker_name: WorkerName = Field(
        "", description="Name of a streaming worker, each its own; empty: made of the host's name and the process id."
    )
    health_host: NonEmpty = Field(
        "127.0.0.1", description="Address at which a worker and the scheduler answer for their health and metrics."
    )
    health_port: Whole = Field(
        8089,
        ge=0,
        le=65_000,
        description="Port of the same, and the next ones where all roles run together; 0: none.",
    )


class Demo(Section):
    enabled: bool = Field(False, description="Feed the built-in source sensor_reading, and keep aggregations of it.")
    cardinality: Whole = Field(
        5, ge=1, le=100, description="Values of each of region, service and host: 8 patterns x cardinality^3 series."
    )
    interval: DurationMs = Field(duration_ms("1s"), gt=0, description="Time between the demo's samples.")


class Config(BaseSettings):
    """The whole config. `Config()` is the defaults; `load` reads the file, the environment and the flags."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    data_dir: NonEmpty = Field("./data", description="Where everything is kept that must survive a restart.")
    mode: Literal["single-node", "cluster"] = Field("single-node", description="One process, or roles over Redis.")
    engine: Engine = Engine()
    head: Head = Head()
    log: Log = Log()
    database: Database = Database()
    redis: Redis = Redis()
    ingest: Ingest = Ingest()
    scrape: tuple[Scrape, ...] = Field(
        (), description="Targets to scrape: a list of {job, targets, interval, timeout, metrics_path, scheme}."
    )
    aggregations: tuple[Aggregation, ...] = Field(
        (),
        description="What is kept: a list of {expr, by | without | series, accumulators, accuracy_sla, width, "
        "retention}.",
    )
    query_engine: QueryEngine = QueryEngine()
    planner: Planner = Planner()
    security: Security = Security()
    kafka: Kafka = Kafka()
    cluster: Cluster = Cluster()
    demo: Demo = Demo()

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *args: Any, **kwargs: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Nothing is read behind the caller's back; `load` names its sources."""
        return (init_settings,)
