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
