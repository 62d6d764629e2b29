#!/bin/sh
# A group survives the loss of its coordinator, tested by a shell script without a sleep. Run: sh failover.sh
#
# KEMU names the program, such as ../../../.venv/bin/kemu; the default is kemu on the PATH. Without curl, Python's
# standard library sends the orders. Two emulated members stand for your service; give your service the addresses in
# $servers instead.
set -eu

here=$(dirname "$0")
said=$(mktemp)
"${KEMU:-kemu}" serve "$here/../orders.toml" --set groups.payments.members=2 --set topics.orders.rate=20/s \
    --control 0 --for 300s >"$said" 2>&1 &
served=$!
trap 'kill "$served" 2>/dev/null || true; rm -f "$said"' EXIT
until grep -q READY "$said"; do
    kill -0 "$served" || { cat "$said"; exit 1; }
    sleep 0.1
done
url=$(sed -n 's/^control //p' "$said")
servers=$(sed -n 's/^READY bootstrap.servers=//p' "$said")
echo "brokers: $servers"

# ask PATH [BODY]: print the answer; fail if the order is refused, or a wait is in vain.
ask() {
    if command -v curl >/dev/null; then
        curl --silent --show-error --fail-with-body "$url/$1" ${2:+--data "$2"}
    else
        python3 -c '
import sys, urllib.error, urllib.request
body = sys.argv[2].encode() if len(sys.argv) > 2 else None
try:
    print(urllib.request.urlopen(sys.argv[1], body).read().decode(), end="")
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())
' "$url/$1" ${2:+"$2"}
    fi
}

ask wait "group payments Stable members=2 within 60s"
ask do "kill-coordinator group=payments for=10s"
ask wait "group payments Unknown within 5s"
ask wait "group payments Stable members=2 coordinator!=none within 60s"
ask wait "group payments lag<=60 within 60s"
ask leader/orders-0

kill -TERM "$served"
wait "$served" || true
grep "^verdict: holds" "$said" || { cat "$said"; exit 1; }
