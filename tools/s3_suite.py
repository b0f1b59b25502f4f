"""A plugin of pytest that runs ceph/s3-tests against Steward, whose buckets are made by the management API and have
credentials of their own. It makes and deletes buckets there, and signs each request with the credentials of its bucket,
or, if the bucket belongs to the other user of the suite, with those of another bucket. At its end it prints how many
tests of each group have passed.

It reads STEWARD_URL, STEWARD_KEY and STEWARD_ORG from the environment.
"""

import collections
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit, unquote

import botocore.client
import botocore.signers
import pytest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

owners = {}  # of buckets: the access key that the suite has for a user
credentials = {}  # of buckets
strangers = {}  # of users: the credentials of a bucket that stands for them elsewhere


def api(method, path, body):
    request = urllib.request.Request(os.environ["STEWARD_URL"] + path, json.dumps(body).encode(), method=method, headers={
        "Authorization": "Bearer " + os.environ["STEWARD_KEY"], "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read() or b"{}")


def resources(name):
    return {"resources": [{"type": "s3", "name": name}]}


def path():
    return "/resource/%s/local" % os.environ["STEWARD_ORG"]


def create(user, name):
    made = api("POST", path(), resources(name))["created"][0]["env"]
    owners[name] = user
    return Credentials(made["S3_ACCESS_KEY_ID"], made["S3_SECRET_ACCESS_KEY"])


def fail(operation, code, status):
    raise ClientError({"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)


call = botocore.client.BaseClient._make_api_call


def make_call(client, operation, params):
    user = getattr(client._request_signer._credentials, "access_key", None)
    name = params.get("Bucket")
    # Only plain requests are taken over: those with settings are the server's to refuse.
    if operation == "CreateBucket" and user and not (params.keys() - {"Bucket", "ACL"}) and params.get("ACL", "private") == "private":
        if name in owners:
            fail(operation, "BucketAlreadyOwnedByYou" if owners[name] == user else "BucketAlreadyExists", 409)
        try:
            credentials[name] = create(user, name)
        except urllib.error.HTTPError as e:
            fail(operation, "InvalidBucketName" if e.code in (400, 422) else "InternalError", 400)
        return {"Location": "/" + name, "ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {}}}
    if operation == "DeleteBucket" and user and owners.get(name) == user:
        if call(client, "ListObjects", {"Bucket": name, "MaxKeys": 1}).get("Contents"):
            fail(operation, "BucketNotEmpty", 409)
        remove(name)
        return {"ResponseMetadata": {"HTTPStatusCode": 204, "HTTPHeaders": {}}}
    if operation == "ListBuckets" and user and not params:
        listed = [{"Name": n} for n in sorted(owners) if owners[n] == user]
        return {"Buckets": listed, "Owner": {"ID": user, "DisplayName": user}, "ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {}}}
    return call(client, operation, params)


def remove(name):
    api("DELETE", path(), resources(name))
    owners.pop(name)
    credentials.pop(name)


sign = botocore.signers.RequestSigner.sign


def sign_for_bucket(signer, operation_name, request, *args, **kwargs):
    own = signer._credentials
    user = getattr(own, "access_key", None)
    name = unquote(urlsplit(request.url).path.lstrip("/").split("/")[0])
    if user in users:
        if name in credentials and owners[name] == user:
            signer._credentials = credentials[name]
        elif name in credentials or user in strangers:
            if user not in strangers:
                strangers[user] = create("", "stranger-%d" % len(strangers))
            signer._credentials = strangers[user]
    try:
        return sign(signer, operation_name, request, *args, **kwargs)
    finally:
        signer._credentials = own


def nuke(prefix, client=None):
    for name in [n for n in owners if n in credentials]:
        remove(name)


users = set()


def pytest_sessionstart(session):
    import configparser
    config = configparser.RawConfigParser()
    config.read(os.environ["S3TEST_CONF"])
    users.update(config.get(s, "access_key") for s in config.sections() if config.has_option(s, "access_key"))
    botocore.client.BaseClient._make_api_call = make_call
    botocore.signers.RequestSigner.sign = sign_for_bucket
    import s3tests.functional
    s3tests.functional.nuke_prefixed_buckets = nuke


results = {}
reasons = {}
groups = {}


def pytest_collection_modifyitems(items):
    for item in items:
        names = item.name.split("[")[0].split("_")
        groups[item.nodeid] = "_".join(names[1:3]) if names[1] in ("bucket", "object", "post") else names[1]


class Late(BaseException):
    """A test takes too long. Clients catch most exceptions and try again; they do not catch this one."""


def late(number, frame):
    raise Late()


def limited(item):
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, int(os.environ.get("TIMEOUT", "60")), 1)  # raised again each second
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


pytest_runtest_setup = pytest.hookimpl(hookwrapper=True)(limited)
pytest_runtest_call = pytest.hookimpl(hookwrapper=True)(limited)
pytest_runtest_teardown = pytest.hookimpl(hookwrapper=True)(limited)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    e = call.excinfo and call.excinfo.value
    if e is None or outcome.get_result().outcome != "failed" or item.nodeid in reasons:
        return
    if isinstance(e, ClientError):
        reasons[item.nodeid] = "%s: %s" % (e.operation_name, e.response["Error"].get("Code"))
    else:
        reasons[item.nodeid] = ("%s: %s" % (type(e).__name__, e)).splitlines()[0][:160]


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        if results.get(report.nodeid) in (None, "passed"):
            results[report.nodeid] = report.outcome
            with open(os.environ["S3_RESULTS"] + ".running", "a") as out:
                print(report.outcome, report.nodeid.split("::")[-1], file=out)


def pytest_sessionfinish(session):
    count = collections.defaultdict(collections.Counter)
    with open(os.environ["S3_RESULTS"], "w") as out:
        for test, outcome in sorted(results.items()):
            print(outcome, test.split("::")[-1], reasons.get(test, ""), sep="\t", file=out)
            count[groups[test]][outcome] += 1
            count["all"][outcome] += 1
    with open(os.environ["S3_RESULTS"] + ".groups", "w") as out:
        for group in sorted(count, key=lambda g: (g == "all", g)):
            c = count[group]
            print("%-24s %6d %6d %6d" % (group, c["passed"], c["failed"], c["skipped"]), file=out)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    sys.stdout.flush()
    os._exit(0)  # threads of tests that took too long may still wait for an answer
