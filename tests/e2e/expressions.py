"""What is asked of both, us and a real Prometheus; see `pair.CONFIG` for the aggregations that cover the first list."""

RATE_S = 5
"""The range of every rate in FROM_SUMMARIES."""

FROM_SUMMARIES = (
    "sum(shop_temperature_celsius)",
    "sum by (floor) (shop_temperature_celsius)",
    "sum by (job, instance) (shop_temperature_celsius)",
    "avg by (job) (shop_temperature_celsius)",
    "count by (floor) (shop_temperature_celsius)",
    "min by (job, instance) (shop_temperature_celsius)",
    "max(shop_temperature_celsius)",
    "stddev by (floor) (shop_temperature_celsius)",
    "stdvar(shop_temperature_celsius)",
    'sum(shop_temperature_celsius{floor=""})',
    'count by (floor) (shop_temperature_celsius{floor=~"c.*|roof"})',
    'max(shop_temperature_celsius{floor!="roof"} offset 3s)',
    "group by (floor) (shop_temperature_celsius)",
    "sum by (code) (rate(shop_requests_total[5s]))",
    'sum(rate(shop_requests_total{path="/c"}[5s]))',
    'count by (path) (rate(shop_requests_total{code!="500"}[5s]))',
    "max by (code) (rate(shop_requests_total[5s]))",
    "sum without (instance) (shop_requests_total)",
    "sum without (instance, code) (shop_requests_total)",
    "count by (floor) (shop_temperature_celsius > 20)",
    "count(shop_flapping)",
    "sum by (part) (shop_flapping)",
    "sum by (job) (up)",
    "avg(up) * 100",
    'sum(rate(shop_requests_total{code="500"}[5s])) / sum(rate(shop_requests_total[5s]))',
    "max by (job) (up) == 1",
)
FROM_THE_HEAD = (
    "shop_temperature_celsius",
    'shop_temperature_celsius{room=~"r00[1-5]|r1.9"}',
    'shop_requests_total{code!~"4..",path!=""}',
    '{__name__=~"shop_(odd|flapping)"}',
    "shop_odd",
    "-shop_odd",
    "shop_flapping",
    "shop_flapping offset 5s",
    "rate(shop_requests_total[5s])",
    "increase(shop_requests_total[8s])",
    "irate(shop_requests_total[5s])",
    "delta(shop_temperature_celsius[7s])",
    "resets(shop_requests_total[14s])",
    "changes(shop_flapping[10s])",
    "avg_over_time(shop_temperature_celsius[5s])",
    "sum_over_time(shop_temperature_celsius[5s])",
    "min_over_time(shop_temperature_celsius[5s])",
    "max_over_time(shop_odd[5s])",
    "count_over_time(shop_flapping[9s])",
    "stddev_over_time(shop_temperature_celsius[8s])",
    "quantile_over_time(0.75, shop_temperature_celsius[8s])",
    "last_over_time(shop_flapping[6s])",
    "present_over_time(shop_flapping[6s])",
    "sum by (room) (shop_temperature_celsius)",
    "sum by (nothing) (shop_requests_total)",
    "avg without (room) (shop_temperature_celsius)",
    "quantile by (floor) (0.9, shop_temperature_celsius)",
    "quantile(1.5, shop_requests_total)",
    "shop_temperature_celsius > bool 20",
    "20 < shop_temperature_celsius",
    'shop_requests_total{code="500"} / on (path) shop_requests_total{code="200"}',
    'sum by (path) (shop_requests_total) - sum by (path) (shop_requests_total{code="200"})',
    "2 * shop_temperature_celsius ^ 2 % 7",
    "process_resident_memory_bytes",
    "sum by (job) (rate(process_cpu_seconds_total[5s]))",
    "1 + 1",
)

REFUSED_BY_BOTH = (
    "sum by (path) (shop_requests_total) / on (path) shop_requests_total",
    "shop_requests_total / on (path) sum by (path) (shop_requests_total)",
)
DIFFERENT_IN_2_42 = {
    "increase(shop_new_total[5m])": (
        "where a counter begins inside the range, 2.42 extrapolates back to its zero over up to 1.1 scrape intervals; "
        "since 3.0 half an interval is the most"
    ),
    'count_over_time(up{job="shop"}[__EDGES__])': (
        "2.42 counts a sample on the left edge of a range; since 3.0 it does not"
    ),
}
"""Expressions with other answers in Prometheus 3, whose rules are ours, and why; __EDGES__ is the time between two
scrapes, the later of which the step is at."""
