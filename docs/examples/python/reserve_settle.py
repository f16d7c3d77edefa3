"""Reserve -> call -> settle, with nothing but Python's standard library.

    WEIR_URL=http://127.0.0.1:18080 WEIR_KEY=wk_... python3 reserve_settle.py

What to copy is the class Weir and the function complete(); the provider below is a stand-in that needs no network.
"""

import http.client
import json
import os
import sys
import threading
import time
import urllib.parse
import uuid


class QuotaExceeded(Exception):
    """The tenant's budget is used up. Retrying cannot help: tell the user, and stop."""


class Refused(Exception):
    """Any other refusal, with its code."""


class ProviderError(Exception):
    """The provider answered with an error before any token."""


class StreamCut(Exception):
    """The stream broke: some tokens were used, and nobody knows how many."""


class Weir:
    def __init__(self, url, key):
        self.host = urllib.parse.urlsplit(url).netloc
        self.key = key
        self.on_wait = lambda: None  # called whenever a reservation is told to wait

    def post(self, path, body):
        """One request; returns status, headers and the decoded answer."""
        connection = http.client.HTTPConnection(self.host, timeout=10)
        try:
            headers = {"Authorization": "Bearer " + self.key, "Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, json.loads(answer.read())
        finally:
            connection.close()

    def reserve(self, body, attempts=10):
        """Asks until admitted. The id stays the same, so a repeat never reserves twice."""
        for _ in range(attempts):
            try:
                status, headers, answer = self.post("/v1/reservations", body)
            except (OSError, http.client.HTTPException):  # an answer that was lost: ask again under the same id
                time.sleep(0.5)
                continue
            if status in (200, 201):
                return answer
            if answer["code"] == "tenant_quota_exceeded":  # has no Retry-After, and must not be retried
                raise QuotaExceeded(answer["detail"])
            if "Retry-After" not in headers:
                raise Refused(answer["code"])
            print("waiting", answer["code"], answer.get("limit", ""))
            self.on_wait()
            time.sleep(min(float(headers["Retry-After"]), 5))
        raise Refused("still refused after %d attempts" % attempts)

    def settle(self, reservation_id, receipt, **report):
        """Reports what was used. It must arrive, so it is repeated until Weir has it; a repeat counts once."""
        path = "/v1/reservations/%s/settle" % reservation_id
        for _ in range(20):
            try:
                status, headers, answer = self.post(path, dict(report, receipt=receipt))
            except (OSError, http.client.HTTPException):
                time.sleep(0.5)
                continue
            if status == 200:
                return answer
            if "Retry-After" not in headers:
                raise Refused(answer["code"])
            time.sleep(float(headers["Retry-After"]))
        raise Refused("not settled")


def complete(weir, provider, prompt, max_tokens=600):
    """One call of an agent: ask, call, report. Whatever happens to the call, the reservation is ended."""
    reservation_id = "py-" + uuid.uuid4().hex
    admitted = weir.reserve({
        "reservation_id": reservation_id, "provider": "openai", "model": "gpt-4o", "agent_id": "example-python",
        "estimate": {"input_tokens": len(prompt), "max_output_tokens": max_tokens},
    })
    try:
        # The model granted: when the budget runs low it is the cheaper one of the plan, and that is the one to call.
        response = provider(admitted["model"], prompt, max_tokens)
    except ProviderError as error:  # nothing was generated: a FAILED row at $0
        return weir.settle(reservation_id, admitted["receipt"], status="FAILED", error_code=str(error))
    except StreamCut:  # no usage: the estimate is charged, and one correction may follow
        return weir.settle(reservation_id, admitted["receipt"], status="PARTIAL")
    return weir.settle(reservation_id, admitted["receipt"], status="SUCCESS", api="chat.completions",
                       usage=response["usage"], response_id=response["id"])


def provider_ok(_model, prompt, max_tokens):
    used = max_tokens // 2
    return {"id": "chatcmpl-" + uuid.uuid4().hex, "choices": [],
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": used, "total_tokens": len(prompt) + used}}


def provider_down(_model, _prompt, _max_tokens):
    raise ProviderError("overloaded_error")


def provider_cut(_model, _prompt, _max_tokens):
    raise StreamCut()


def main():
    weir = Weir(os.environ["WEIR_URL"], os.environ["WEIR_KEY"])
    prompt = "Summarise this page. " * 20

    def show(name, answer):
        print(name, answer["state"], answer["status"], answer["cost_usd"], "estimated" if answer["estimated"] else "")

    show("ok", complete(weir, provider_ok, prompt))
    show("error", complete(weir, provider_down, prompt))
    show("cut", complete(weir, provider_cut, prompt))

    # A tenant with one call at a time: the second waits until the first has settled, which ends when the second waits.
    first = "py-" + uuid.uuid4().hex
    held = weir.reserve({"reservation_id": first, "provider": "openai", "model": "gpt-4o", "agent_id": "example-python",
                         "estimate": {"input_tokens": 100, "max_output_tokens": 100}})
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    second_waits = threading.Event()
    weir.on_wait = second_waits.set

    def end_first():
        second_waits.wait()
        weir.settle(first, held["receipt"], status="SUCCESS", api="chat.completions", usage=usage)

    threading.Thread(target=end_first).start()
    show("waited", complete(weir, provider_ok, prompt))

    # And then until the budget is gone. The provider is not called for the one that is refused.
    for n in range(100):
        try:
            complete(weir, provider_ok, prompt)
        except QuotaExceeded as error:
            print("quota", n, error)
            return 0
    print("no quota in sight")
    return 1


if __name__ == "__main__":
    sys.exit(main())
