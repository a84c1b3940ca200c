"""Workflows that the offline model builds by name, each as commands (grammar.py)."""

from __future__ import annotations

from turnback.agent.commands import IT, Add, Ref

RECIPES: dict[str, tuple[Add, ...]] = {
    "sales report": (
        Add(
            "CSVFileScan",
            {"fileName": "sales.csv"},
            "Load sales",
            sentence="First I load the sales from `sales.csv`.",
        ),
        Add(
            "Filter",
            {"predicates": [{"attribute": "amount", "condition": ">", "value": "0"}]},
            "Keep real sales",
            (IT,),
            sentence="Then I keep the rows with an amount above zero.",
        ),
        Add(
            "Aggregate",
            {
                "aggregations": [
                    {"aggFunction": "sum", "attribute": "amount", "result attribute": "total"}
                ],
                "groupByKeys": ["region"],
            },
            "Total by region",
            (IT,),
            sentence="Now I add up the amounts of each region.",
        ),
        Add(
            "BarChart",
            {"value": "total", "fields": "region"},
            "Sales by region",
            (IT,),
            sentence="Last, a bar chart of the totals.",
        ),
    ),
    "order report": (
        Add(
            "CSVFileScan",
            {"fileName": "customers.csv"},
            "Load customers",
            sentence="First I load the customers from `customers.csv`.",
        ),
        Add(
            "CSVFileScan",
            {"fileName": "orders.csv"},
            "Load orders",
            sentence="Beside them, the orders from `orders.csv`.",
        ),
        Add(
            "HashJoin",
            {"buildAttributeName": "customer_id", "probeAttributeName": "customer_id"},
            "Orders with customers",
            (Ref("the customers", made=-2), Ref("the orders", made=-1)),
            sentence="I join each order to its customer.",
        ),
        Add(
            "PieChart",
            {"value": "amount", "name": "country"},
            "Orders by country",
            (IT,),
            sentence="Last, a pie chart of the amounts by country.",
        ),
    ),
    "top list": (
        Add(
            "CSVFileScan",
            {"fileName": "sales.csv"},
            "Load sales",
            sentence="First I load the sales from `sales.csv`.",
        ),
        Add(
            "Sort",
            {"attributes": [{"attribute": "amount", "sortPreference": "DESC"}]},
            "Largest first",
            (IT,),
            sentence="I put the largest amounts first.",
        ),
        Add("Limit", {"limit": 10}, "Top ten", (IT,), sentence="And I keep the first ten rows."),
    ),
}
