# Sourced by the other scripts: makes .venv at the repository's root and installs homespec into it.
#   setup [GROUP]    GROUP is a dependency group of pyproject.toml (test, dev)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
fail() { say "Error: $1"; say "Hint: $2"; exit 1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"; return
        fi
    done
    fail "Python 3.11 or newer is needed, and none was found." "Install it, or name one: PYTHON=/path/to/python3 $0"
}

# Clang's code decodes several tokens at once 10 to 20% faster than GCC's for Q4_K models, and others about as
# fast (bench/builds.py), so it is taken where it is complete. CC and CXX always win.
choose_compiler() {
    local version program='#if __clang_major__ < 16
#error
#endif
int main() {}'
    if [ -n "${CC:-}${CXX:-}" ]; then return; fi
    for version in "" -22 -21 -20 -19 -18 -17 -16; do
        if command -v "clang$version" >/dev/null &&
            "clang++$version" -fopenmp -x c++ -o /dev/null - <<<"$program" 2>/dev/null; then
            export CC=clang$version CXX=clang++$version
            say "Compiling with $CC, whose code checks drafts faster than GCC's. To choose another: CC=gcc CXX=g++ $0"
            return
        fi
    done
    say "Compiling with ${CXX:-c++}. Clang's code would check drafts of Q4_K models faster: on Debian and Ubuntu"
    say "sudo apt install clang-16 libomp-16-dev (or a newer version), and then start this again."
}

# llama-cpp-python comes as source and is compiled for this CPU. pip keeps the result, so this happens once.
install_llama_cpp() {
    local want family=
    want=$(sed -n 's/.*"\(llama-cpp-python==[^"]*\)".*/\1/p' pyproject.toml)
    if .venv/bin/python -c 'import sys, importlib.metadata as m
sys.exit(m.version("llama-cpp-python") != sys.argv[1].split("==")[1])' "$want" 2>/dev/null; then
        return
    fi
    choose_compiler
    case "${CXX:-}" in *clang*) family=clang ;; *g++*) family=GCC ;; esac
    build_llama_cpp "$want"
    # pip may have had one in its cache that was built on another CPU, or by another compiler.
    .venv/bin/python -m homespec.runtime.build $family && return
    .venv/bin/pip cache remove -q llama_cpp_python
    build_llama_cpp "$want" --force-reinstall
}

# build_llama_cpp REQUIREMENT [PIP OPTIONS]
build_llama_cpp() {
    local want=$1 log pid start step due=30
    shift
    if ! command -v "${CXX:-c++}" >/dev/null && ! command -v g++ >/dev/null && ! command -v clang++ >/dev/null; then
        fail "A C++ compiler is needed to build llama.cpp, and none was found." \
            "On Debian, Ubuntu and Raspberry Pi OS: sudo apt install build-essential cmake"
    fi
    log=$(mktemp)
    start=$SECONDS
    say "Installing $want. It is compiled for this CPU: 4 to 12 minutes on two cores, once."
    # Without its image part (LLAVA), which homespec does not use, the build takes half as long.
    CMAKE_ARGS="${CMAKE_ARGS:--DLLAVA_BUILD=OFF}" .venv/bin/pip install -v "$@" "$want" >"$log" 2>&1 &
    pid=$!
    trap 'kill $pid 2>/dev/null' INT TERM
    while kill -0 $pid 2>/dev/null; do
        sleep 1
        step=$(grep -o '^ *\[[0-9]*/[0-9]*\]' "$log" | tail -n 1 | tr -d ' ' || true)
        if [ -t 2 ]; then
            printf '\r  compiling %-10s %d s ' "$step" $((SECONDS - start)) >&2
        elif [ $((SECONDS - start)) -ge "$due" ]; then
            say "  compiling ${step:-...} $((SECONDS - start)) s"
            due=$((due + 30))
        fi
    done
    [ -t 2 ] && say ""
    if ! wait $pid; then
        tail -n 25 "$log" >&2
        fail "llama-cpp-python could not be built; the whole log is $log." \
            "If a tool is missing: sudo apt install build-essential cmake"
    fi
    trap - INT TERM
    rm -f "$log"
}

setup() {
    local python stamp=.venv/installed-${1:-run}
    if [ ! -x .venv/bin/python ]; then
        python=$(find_python)
        say "Making .venv with $("$python" --version)."
        "$python" -m venv .venv || fail "Python cannot make a virtual environment." "sudo apt install python3-venv"
    fi
    # Up to date when pyproject.toml has not changed since.
    if [ ! "$stamp" -nt pyproject.toml ]; then
        # Dependency groups need pip 25.1; what a new virtual environment brings is often older.
        .venv/bin/pip install -q --upgrade 'pip>=25.1'
        install_llama_cpp
        say "Installing homespec and what it needs."
        .venv/bin/pip install -q --editable . ${1:+--group "$1"}
        touch "$stamp"
    fi
}
