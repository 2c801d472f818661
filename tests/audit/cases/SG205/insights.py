"""What `clean/imported_dict.py` imports: dicts that always have keys."""


def get_insights(team):
    rows = [row.score for row in team.rows]
    return {"scores": rows, "best": max(rows, default=None)}


def get_more_insights(team):
    return {"dates": team.dates}
