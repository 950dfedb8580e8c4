"""Clicks of a shop whose visitors change their taste, its items, and a measure of predictions."""

import time

import numpy as np

TURN_S = 200
COLUMNS = "item INT, age FLOAT, clicked INT, seen TIMESTAMP_LTZ(3), WATERMARK FOR seen AS seen"
# Visitors like cheap items at first; a quarter of a turn later, only their age counts.
ANGLE = f"2 * PI() * (UNIX_TIMESTAMP() - {int(time.time())}) / {TURN_S}"
SHOP = f"""CREATE TEMPORARY TABLE {{name}} (
    item INT, age FLOAT, luck DOUBLE,
    clicked AS CASE WHEN luck < 1 / (1 + EXP(4 * (
        COS({ANGLE}) * (item / 5.0 - 1) + SIN({ANGLE}) * (1 - 2 * age)))) THEN 1 ELSE 0 END,
    seen AS CURRENT_TIMESTAMP, WATERMARK FOR seen AS seen)
    WITH ('connector' = 'datagen', 'rows-per-second' = '100',
    'fields.item.min' = '0', 'fields.item.max' = '9', 'fields.age.min' = '0',
    'fields.age.max' = '1', 'fields.luck.min' = '0', 'fields.luck.max' = '1')"""
ITEMS = """CREATE TEMPORARY TABLE items (
    item INT, price AS CAST(item / 10.0 AS FLOAT), since AS TO_TIMESTAMP_LTZ(0, 3),
    WATERMARK FOR since AS since,
    PRIMARY KEY (item) NOT ENFORCED)
    WITH ('connector' = 'datagen', 'fields.item.kind' = 'sequence',
    'fields.item.start' = '0', 'fields.item.end' = '9')"""
JOINED = """SELECT price, age, clicked, seen FROM clicks
    JOIN items FOR SYSTEM_TIME AS OF clicks.seen ON clicks.item = items.item"""


def declare_tables(tables, kafka):
    """Declare the tables of clicks and items; with Kafka, also return the job that writes clicks to
    the topic.
    """
    tables.execute_sql(ITEMS)
    if not kafka:
        tables.execute_sql(SHOP.format(name="clicks"))
        return None
    tables.execute_sql(SHOP.format(name="shop"))
    tables.execute_sql(
        f"""CREATE TEMPORARY TABLE clicks ({COLUMNS}) WITH (
        'connector' = 'kafka', 'topic' = 'clicks',
        'properties.bootstrap.servers' = '{kafka}', 'scan.startup.mode' = 'latest-offset',
        'format' = 'json')"""
    )
    # makes the topic
    tables.execute_sql(
        "INSERT INTO clicks VALUES (0, CAST(0 AS FLOAT), 0, CURRENT_TIMESTAMP)"
    ).wait()
    return tables.execute_sql(
        "INSERT INTO clicks SELECT item, age, clicked, seen FROM shop"
    ).get_job_client()


def auc(rows, column):
    """Return the probability that a click has a higher prediction than a visit without one."""
    clicked = np.array([row[0] for row in rows]) == 1
    ranks = np.array([row[column] for row in rows]).argsort().argsort()
    hits, misses = clicked.sum(), (~clicked).sum()
    return (ranks[clicked].sum() - hits * (hits - 1) / 2) / (hits * misses)
