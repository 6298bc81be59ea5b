import time
from source.repositories import git
from kernforge.recipe.model import GitSource
from kernforge.source.fetch import fetch, place
def test_x(upstream, smart_http, settings, runner, told, tmp_path):
    t=time.time(); c=upstream.commit({"o":"1", **{f"src/{i}": str(i) for i in range(6000)}}); print("make", time.time()-t)
    class T(type(runner)):
        def run(self, command, *, timeout=None):
            t=time.time(); r=super().run(command, timeout=timeout); print(round(time.time()-t,2), command.argv[2:8], len(command.argv)); return r
    r=T(); s=GitSource(git=f"{smart_http.url}/up", commit=c, sparse=("src",))
    t=time.time(); fetch(s, settings, runner=r, told=told.append); print("fetch", time.time()-t)
    t=time.time(); place(s, settings, tmp_path/"q", runner=r); print("place", time.time()-t)
