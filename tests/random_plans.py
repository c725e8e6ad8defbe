"""Random streaming jobs as source code in plain PySpark, one for each seed and number.

Each row has the columns of the ledger: `ns`, the numbers of the records that it is made of, `k` a
key of ten, `t` a time, `v` a value that most steps change, and `o`, whether the row has passed
a function that receives several rows, after which parents are ranges.
"""

# ruff: noqa: S608
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

COLUMNS = ("ns", "k", "t", "v", "o")
# The output: what the row is made of, and everything else, so that a wrong row is noticed.
VALUE = (
    "concat_ws(';', concat_ws(',', CAST(array_sort(array_distinct(ns)) AS ARRAY<STRING>)), "
    "CAST(o AS STRING), CAST(k AS STRING), CAST(v AS STRING), CAST(t AS STRING)) AS value"
)
MIN_STEPS, MAX_STEPS = 5, 15
# Steps that multiply rows take time. After an opaque function only ranges can be checked.
MAX_GROWING, OPAQUE = 3, 0.3


@dataclass(frozen=True)
class Plan:
    """A job: source code that makes `rows` of `left`, `right`, `spark`, `F` and `pd`."""

    seed: str
    number: int
    lines: tuple[str, ...]

    @property
    def source(self) -> str:
        return "\n".join(self.lines)

    def __str__(self) -> str:
        return f"# plan {self.number} of seed {self.seed}\n{self.source}"


def random_plan(seed: str, number: int) -> Plan:
    """The same plan for the same arguments."""
    # Not for secrets.
    return _Maker(seed, number, random.Random(f"{seed}/{number}")).plan()  # noqa: S311


class _Maker:
    """Draws one step after the other."""

    def __init__(self, seed: str, number: int, chance: random.Random) -> None:
        self.seed, self.number, self.chance = seed, number, chance
        self.lines: list[str] = []
        self.views = 0
        self.growing = 0
        # At most one.
        self.may_be_opaque = chance.random() < OPAQUE

    def plan(self) -> Plan:
        chance = self.chance
        self.add(f"rows = {chance.choice(('left', 'right'))}")
        stateful = self.stateful_steps()
        steps = chance.randint(MIN_STEPS, MAX_STEPS) - len(stateful)
        before = chance.randint(0, steps) if stateful else steps
        self.draw(before, (*self.rowwise(), *self.combining(), *self.functions()))
        if stateful:
            self.add(f'rows = rows.withWatermark("t", "{chance.randint(1, 5)} seconds")')
        for step in stateful:
            step()
            # The time must stay the one with the watermark, and state is kept once.
            few = chance.randint(0, 2)
            self.draw(few, self.rowwise())
            before += few
        self.draw(max(0, steps - before), (*self.rowwise(), *self.functions()))
        self.add(f'rows = rows.selectExpr("{VALUE}")')
        return Plan(self.seed, self.number, tuple(self.lines))

    def add(self, *lines: str) -> None:
        self.lines.extend(lines)

    def draw(self, count: int, steps: tuple[Callable[[], None], ...]) -> None:
        for _ in range(count):
            self.chance.choice(steps)()

    def stateful_steps(self) -> list[Callable[[], None]]:
        """In the order that Spark allows, at most two."""
        every = [self.deduplicate, self.join_streams, self.aggregate]
        chosen = self.chance.sample(every, self.chance.choice((0, 0, 1, 1, 1, 1, 2)))
        return [step for step in every if step in chosen]

    def rowwise(self) -> tuple[Callable[[], None], ...]:
        once = (self.compute, self.rename, self.keep, self.query, self.join_static, self.subquery)
        return (*once, self.repeat, self.repeat_with_place)

    def combining(self) -> tuple[Callable[[], None], ...]:
        unions = (self.unite, self.unite, self.unite_with_itself)
        return (*unions, self.repartition, self.explode_outer)

    def functions(self) -> tuple[Callable[[], None], ...]:
        return (self.python_function, self.map_in_pandas, self.apply_in_pandas)

    def below(self, limit: int) -> int:
        return self.chance.randrange(limit)

    def grows(self) -> bool:
        """Whether the rows may be multiplied once more; otherwise a step drops some."""
        self.growing += 1
        if self.growing > MAX_GROWING:
            self.keep()
        return self.growing <= MAX_GROWING

    def compute(self) -> None:
        text = self.chance.choice(
            (
                f"pmod(v * {2 + self.below(9)} + k, 10007)",
                f"CASE WHEN v % 2 = 0 THEN v + {self.below(5)} ELSE v - size(ns) END",
                "v + CAST(unix_timestamp(t) % 7 AS BIGINT)",
            )
        )
        self.add(f'rows = rows.withColumn("v", F.expr("{text}"))')

    def rename(self) -> None:
        order = list(COLUMNS)
        self.chance.shuffle(order)
        moved = ", ".join(f'"{each}"' for each in order)
        self.add(
            'rows = rows.withColumnRenamed("v", "w").withColumn("v", F.col("w") + 1)',
            f"rows = rows.select({moved})",
        )

    def keep(self) -> None:
        column = self.chance.choice(("v", "k", "size(ns)", "unix_timestamp(t)"))
        modulus = 3 + self.below(5)
        self.add(f'rows = rows.where("pmod({column}, {modulus}) <> {self.below(modulus)}")')

    def view(self) -> str:
        self.views += 1
        name = f"plan_{self.number}_{self.views}"
        self.add(f'rows.createOrReplaceTempView("{name}")')
        return name

    def query(self) -> None:
        name = self.view()
        self.add(
            f'rows = spark.sql("WITH few AS (SELECT *, v + {self.below(9)} AS w FROM {name}) "'
            f' "SELECT ns, w AS v, o, t, pmod(k + {self.below(3)}, 10) AS k "'
            f' "FROM few WHERE k <> {self.below(10)}")'
        )

    def subquery(self) -> None:
        name = self.view()
        found = self.chance.choice(("IN", "NOT IN"))
        limit = 4 + self.below(5) if found == "IN" else self.below(4)
        self.add(
            f'rows = spark.sql("SELECT ns, k, t, v, o FROM {name} "'
            f' "WHERE CAST(k AS BIGINT) {found} (SELECT id FROM range({limit}))")'
        )

    def join_static(self) -> None:
        how = self.chance.choice(("inner", "left", "left_semi", "left_anti"))
        if how in ("inner", "left") and not self.grows():
            return
        limit = {"left_anti": 3, "left_semi": 7}.get(how, 12)
        # Two rows for some keys.
        self.add(
            f'names = spark.range({limit}).selectExpr("CAST(id % 9 AS INT) AS k", "id AS w")',
            f'rows = rows.join(names, "k", "{how}")',
        )
        if how in ("inner", "left"):
            self.add('rows = rows.selectExpr("ns", "k", "t", "v + coalesce(w, 0) AS v", "o")')

    def repeat(self) -> None:
        if self.grows():
            name = self.chance.choice(("explode", "inline"))
            array = {
                "explode": "F.explode(F.expr('array_repeat(v, k % 3)')).alias('v')",
                "inline": "F.inline(F.expr('array(struct(v AS v), struct(v + 7 AS v))'))",
            }[name]
            self.add(f'rows = rows.select("ns", "k", "t", "o", {array})')

    def repeat_with_place(self) -> None:
        if self.grows():
            self.add(
                "rows = rows.select('ns', 'k', 't', 'o', "
                "F.posexplode(F.expr('array(v, v + 1)')).alias('p', 'w'))",
                'rows = rows.selectExpr("ns", "k", "t", "o", "w * 2 + p AS v")',
            )

    def explode_outer(self) -> None:
        if self.grows():
            self.add(
                "rows = rows.select('ns', 'k', 't', 'o', 'v', "
                "F.explode_outer(F.expr('array_repeat(v, k % 2)')).alias('w'))",
                'rows = rows.selectExpr("ns", "k", "t", "o", "coalesce(w, -v) AS v")',
            )

    def unite(self) -> None:
        if self.grows():
            other = self.chance.choice(("left", "right"))
            self.add(f'rows = rows.unionByName({other}.where("pmod(k, 3) = {self.below(3)}"))')

    def unite_with_itself(self) -> None:
        if self.grows():
            few = self.chance.choice(("rows", f'rows.where("pmod(v, 2) = {self.below(2)}")'))
            self.add(f"rows = rows.union({few})")

    def repartition(self) -> None:
        how = self.chance.choice(('2, "k"', "2", '2, "v"'))
        self.add(f"rows = rows.repartition({how})")

    def python_function(self) -> None:
        self.add(
            f"rows = rows.withColumn('v', F.udf(lambda v, k: (v * {3 + self.below(5)} + k) % 10007,"
            " 'bigint')('v', 'k'))"
        )

    def map_in_pandas(self) -> None:
        if self.is_opaque():
            self.add(
                "def changed(frames):",
                "    for frame in frames:",
                f"        kept = frame[frame['v'] % 4 != {self.below(4)}]",
                "        yield kept.assign(v=kept['v'] + 1, o=True)",
                "rows = rows.mapInPandas(changed, rows.schema)",
            )

    def apply_in_pandas(self) -> None:
        if self.is_opaque():
            self.add(
                "def merged(frame):",
                "    first = frame.sort_values(['t', 'v']).head(1)",
                "    every = sorted({int(n) for ns in frame['ns'] for n in ns})",
                "    return first.assign(ns=[every], v=int(frame['v'].sum()), o=True)",
                "rows = rows.groupBy('k').applyInPandas(merged, rows.schema)",
            )

    def is_opaque(self) -> bool:
        """Whether the step may be one that receives several rows; otherwise a column changes."""
        if not self.may_be_opaque:
            self.compute()
            return False
        self.may_be_opaque = False
        return True

    def deduplicate(self) -> None:
        # By all columns: otherwise any of several rows may remain.
        name = self.chance.choice(("dropDuplicates", "dropDuplicatesWithinWatermark"))
        self.add(f"rows = rows.{name}({list(COLUMNS)!r})")

    def join_streams(self) -> None:
        how = self.chance.choice(("inner", "leftOuter", "rightOuter", "fullOuter", "leftSemi"))
        other = self.chance.choice(("left", "right"))
        # Later, because a record of the same topic has the same time only as itself.
        modulus, later = self.chance.choice(((1, 1), (1, 3), (2, 2), (5, 5)))
        self.add(
            f'other = {other}.where("pmod(k, {2 + self.below(3)}) = 0").selectExpr('
            f'"ns AS ns2", "k AS k2", "t + INTERVAL {later} SECOND AS u", "v AS v2", "o AS o2")',
            'other = other.withWatermark("u", "2 seconds")',
            f'rows = rows.join(other, F.expr("pmod(k, {modulus}) = pmod(k2, {modulus}) AND t = u"),'
            f' "{how}")',
        )
        if how != "leftSemi":
            time = "u" if how == "rightOuter" else "t"
            self.add(
                'rows = rows.selectExpr("concat(coalesce(ns, array()), coalesce(ns2, array()))'
                f' AS ns", "coalesce(k, k2) AS k", "{time} AS t",'
                ' "coalesce(v, 0) * 3 + coalesce(v2, 1) AS v",'
                ' "coalesce(o, false) OR coalesce(o2, false) AS o")'
            )

    def aggregate(self) -> None:
        window = self.chance.choice(('"10 seconds"', '"20 seconds"', '"20 seconds", "10 seconds"'))
        self.add(
            f'groups = rows.groupBy("k", F.window("t", {window}))',
            'rows = groups.agg(F.expr("array_distinct(flatten(collect_list(ns))) AS ns"),'
            ' F.sum("v").alias("v"), F.expr("bool_or(o) AS o"))',
            'rows = rows.selectExpr("ns", "k", "window.start AS t", "v", "o")',
        )
