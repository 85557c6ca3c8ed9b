"""Threads that work for whoever submits.

A thread of a pool starts each job with the submitter's work, and none of the job before. Threads that a request starts
get nothing: they may be workers that stay."""

from functools import partial, wraps

from . import work


def patch(module):
    cls = module.ThreadPoolExecutor
    submit = cls.submit

    @wraps(submit)
    def carried(self, *args, **kw):
        if args:
            args = (partial(work.run, work.token(), args[0]), *args[1:])
        return submit(self, *args, **kw)

    cls.submit = carried


def patch_threads(module):
    # Where threads inherit the context of who starts them (python -X thread_inherit_context=1, free-threaded builds).
    start = module.Thread.start
    module.Thread.start = lambda self: work.run(0, start, self)
