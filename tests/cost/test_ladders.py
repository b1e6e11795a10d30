"""Published steps of NPU kernels beside the cost model's pipes."""

from __future__ import annotations

from statistics import median

from autocomp.cost.chip import shipped
from autocomp.cost.pipes import Product, Side, memory_seconds, product_time, spilled, together
from benchmarks.ladders import FITTED, main, order, rows, summary


def test_errors_and_order_of_the_ladders() -> None:
    found = [r for r in rows() if r.model is not None]
    fitted, checks = ([r for r in found if (r.ladder in FITTED) == which] for which in (True, False))
    assert len(fitted) > 30 and len(checks) > 40, summary(found)
    assert median(abs(r.error) for r in fitted) < 0.05 and max(abs(r.error) for r in fitted) < 0.3, summary(fitted)
    assert median(abs(r.error) for r in checks) < 0.09 and max(abs(r.error) for r in checks) < 0.36, summary(checks)
    assert all(abs(r.error) < 0.13 for r in checks if "attention" in r.ladder) and sum("attention" in r.ladder for r in checks) == 3
    for some in (fitted, checks):
        by = {r.ladder: [x for x in some if x.ladder == r.ladder] for r in some}
        right, pairs = map(sum, zip(*map(order, by.values())))
        assert right >= 0.94 * pairs, summary(some)


def test_the_table_is_printed(capsys) -> None:  # type: ignore[no-untyped-def]
    main([])
    text = capsys.readouterr().out
    assert "add_f16_8192 (fitted)" in text and "checks: " in text and "not modelled" in text


def test_each_mechanism_costs_what_it_should() -> None:
    chip = shipped("ascend910b1")
    a, b = Side(16384, 1024, 8), Side(32768, 512, 4)
    p = Product(96, 128, 128, 256, 64, a, b)
    best = product_time(p, chip)
    assert product_time(Product(96, 128, 128, 256, 64, a, b, slots=1), chip) > 1.5 * best
    assert product_time(Product(96, 128, 128, 256, 64, a, b, drained=False), chip) > best
    assert product_time(Product(96, 128, 128, 256, 64, Side(16384, 128), Side(32768, 128)), chip) > 1.5 * best
    rows = Product(96, 128, 128, 256, 64, a, Side(32768, 512, 4, odd=True))  # every block of 32 bytes is a run of its own
    assert product_time(rows, chip) > 2 * best
    assert spilled(1e8, chip) == 0 and spilled(1e9, chip) == 1
    assert memory_seconds(2.7e8, 1.34e8, chip) > memory_seconds(2.7e8, 1.34e8, chip, bypass=True)
    assert together((3.0, 4.0), 2) == 5.0 and together((), 2) == 0.0
