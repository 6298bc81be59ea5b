"""Other recipes whose wheels a build needs: the same target, planned and built before it."""

from __future__ import annotations

from dataclasses import replace

from kernforge.errors import RecipeError, SelectionError
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
        RecipeError: a required recipe is missing or not valid; ``requires-torch`` where it needs a
            torch and this job has none.
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
        if recipe.matrix.torch and job.target.torch is None:
            raise RecipeError(
                "requires-torch",
                f"{job.recipe.name} is built without torch and requires {name!r}, which needs one",
                hint=f"write matrix.torch in {job.recipe.name}, as in {name}",
            )
        torch = job.target.torch if recipe.matrix.torch else None
        found.append(Job(recipe=recipe, target=replace(job.target, torch=torch)))
    return tuple(found)
