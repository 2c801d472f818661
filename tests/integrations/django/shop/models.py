"""Tables of a shop. `Product` invalidates tags, with its bulk statements; `Note` invalidates nothing."""

from __future__ import annotations

from django.db import models

from stampede_guard.integrations.django import InvalidatingQuerySet, invalidates


class Note(models.Model):
    text = models.CharField(max_length=40)

    class Meta:
        app_label = "shop"


@invalidates("label:{pk}")
class Label(models.Model):
    name = models.CharField(max_length=40)

    class Meta:
        app_label = "shop"


@invalidates("named")
class Named(models.Model):
    name = models.CharField(max_length=40)

    class Meta:
        abstract = True


class Shop(Named):
    class Meta:
        app_label = "shop"


@invalidates("product:{pk}", "shelf:{shelf}", "products")
class Product(models.Model):
    name = models.CharField(max_length=40)
    shelf = models.IntegerField(default=1)
    labels = models.ManyToManyField(Label, related_name="products")
    objects = InvalidatingQuerySet.as_manager()

    class Meta:
        app_label = "shop"


class Offer(Product):
    """A proxy."""

    class Meta:
        app_label = "shop"
        proxy = True


class Chair(Product):
    legs = models.IntegerField(default=4)

    class Meta:
        app_label = "shop"


class Paper(models.Model):
    file = models.FileField()

    class Meta:
        app_label = "shop"


@invalidates("owner:{pk}")
class Owner(models.Model):
    objects = InvalidatingQuerySet.as_manager()

    class Meta:
        app_label = "shop"


@invalidates("task:{pk}", "owner:{owner_id}", "reviewer:{reviewer_id}", "auditor:{auditor_id}")
class Task(models.Model):
    """Each foreign key is changed in another way when its owner is deleted."""

    owner = models.ForeignKey(Owner, models.CASCADE, related_name="tasks", null=True)
    reviewer = models.ForeignKey(Owner, models.SET_NULL, related_name="+", null=True)
    auditor = models.ForeignKey(Owner, models.SET(None), related_name="+", null=True)
    helpers = models.ManyToManyField(Owner, related_name="helps")
    name = models.CharField(max_length=40, default="task")
    objects = InvalidatingQuerySet.as_manager()
    plain = models.Manager()

    class Meta:
        app_label = "shop"


@invalidates("story:{pk}", "named:{name}")
class Story(Task):
    """A row of its own and one of `Task`."""

    points = models.IntegerField(default=1)

    class Meta:
        app_label = "shop"


class Place(models.Model):
    """Has no tags, but its child does."""

    name = models.CharField(max_length=40)
    objects = InvalidatingQuerySet.as_manager()

    class Meta:
        app_label = "shop"


@invalidates("cafe:{pk}")
class Cafe(Place):
    class Meta:
        app_label = "shop"
