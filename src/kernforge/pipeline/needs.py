"""Other recipes whose wheels a build needs: the same target, planned and built before it."""

from __future__ import annotations

from dataclasses import replace

from kernforge.errors import SelectionError
from kernforge.pipeline.settings import Settings
from kernforge.recipe.load import load_recipe
from kernforge.recipe.matrix import Job


def required_jobs(job: Job, settings: Settings, *, way: tuple[str, ...] = ()) -> tuple[Job, ...]:
    """The jobs that must be built first, each for this job's target.

    A recipe that builds without torch is built without it here too.

    Args:
        job: whose needs are asked.
        settings: say where recipes are.
        way: names of the recipes that led here, to find circles.

    Raises:
        SelectionError: ``requires-circle``.
        RecipeError: a required recipe is missing or not valid.
    """
    found = []
    for name in job.recipe.requires:
        if name in (*way, job.recipe.name):
            circle = " -> ".join((*way, job.recipe.name, name))
            raise SelectionError(
                "requires-circle",
                f"Recipes require each other: {circle}",
                hint="take one of the names out of requires",
            )
        recipe = load_recipe(settings.recipes / f"{name}.yaml")
        torch = job.target.torch if recipe.matrix.torch else None
        found.append(Job(recipe=recipe, target=replace(job.target, torch=torch)))
    return tuple(found)
