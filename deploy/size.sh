#!/bin/sh
# Fails if a file is larger than its row of bench/budget.toml, in megabytes: deploy/size.sh ROW FILE.
set -eu
cd "$(dirname "$0")/.."

row=${1:?ROW}
size=$(stat -c %s "${2:?FILE}")
awk -v row="[$row]" -v size="$size" -F' = ' '
    /^\[/ { inside = $0 == row }
    inside && $1 == "limit" { limit = $2 }
    inside && $1 == "slack" { slack = $2 }
    END {
        size /= 1000000
        printf "%s %.1f (budget %.1f)\n", row, size, limit
        exit !(limit && size <= limit * (1 + slack))
    }
' bench/budget.toml
