# shellcheck shell=bash
# What the scripts share; to be sourced with the project's root as the working directory.
set -euo pipefail
jobs=$(nproc)
export LC_ALL=C.UTF-8

# A compiler cache that cannot write its folder would fail the build instead of speeding it up.
[[ -n ${CCACHE_DIR:-} || -w ${HOME:-/nonexistent} ]] || export CCACHE_DISABLE=1

# Ubuntu 22.04 has version 12 beside an older g++.
version=$(g++ -dumpversion 2>/dev/null || echo 0)
if [[ -z ${CXX:-} && ${version%%.*} -lt 12 ]] && command -v g++-12 >/dev/null; then
  export CXX=g++-12
fi

say() { printf '\n== %s\n' "$*"; }

# configure PRESET [-D...]: quiet unless it fails.
configure() {
  local preset=$1 log=build/$1.configure.log
  shift
  mkdir -p build
  if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    echo "configuring $preset failed" >&2
    return 1
  fi
}

# compile PRESET [TARGET...]: a terminal sees ninja's own moving line; a log gets one line per tenth
# of the work. What the compiler says is always shown.
compile() {
  local preset=$1 command=(ninja -C "build/$1" -j "$jobs") begun=$SECONDS
  shift
  command+=("$@")
  if [[ -t 1 ]]; then
    "${command[@]}" || { echo "building $preset failed" >&2 && return 1; }
  else
    NINJA_STATUS='[%f/%t] ' "${command[@]}" 2>&1 | tenths_of_ninja || {
      echo "building $preset failed" >&2 && return 1
    }
  fi
  echo "built $preset in $((SECONDS - begun)) s"
}

tenths_of_ninja() {
  local line last=0
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\  ]]; then
      local tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
      ((tenth == last)) || echo "  [${BASH_REMATCH[1]}/${BASH_REMATCH[2]}]"
      last=$tenth
    elif [[ $line != ninja:\ Entering* && $line != ninja:\ no\ work* ]]; then
      printf '%s\n' "$line"
    fi
  done
}

# build_release [-D...]: builds what `make build` promises, and shows it under build/bin, build/lib.
build_release() {
  # The tests need more packages than the product: a first build leaves them out, and a build
  # folder that has them keeps them.
  local extra=()
  [[ -f build/release/CMakeCache.txt ]] || extra=(-DWEFT_TESTS=OFF)
  configure release "${extra[@]}" "$@"
  compile release src/all examples/all
  ln -sfn release/bin build/bin
  ln -sfn release/lib build/lib
}
