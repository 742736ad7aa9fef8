#!/bin/sh
# Installs a release archive, mneme-VERSION-linux-x86_64.tar.xz, that lies beside this file or is named:
#     sh install.sh [--prefix FOLDER] [ARCHIVE]
# Without root into ~/.local, as root into /usr/local. Links lead to it: of the programs in FOLDER/bin, of man pages and
# of shells' completions in FOLDER/share. An older installation at the same place is replaced. Remove FOLDER/lib/mneme
# and the links that point there to be rid of it.
set -eu
# Root installs for everybody.
umask 022

die() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }
usage() { printf 'Usage: sh install.sh [--prefix FOLDER] [ARCHIVE]\n'; }

prefix=
archive=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --prefix) [ -n "${2:-}" ] || { usage >&2; exit 64; }; prefix=$2; shift 2 ;;
        --prefix=?*) prefix=${1#*=}; shift ;;
        -*) usage >&2; exit 64 ;;
        *) [ -z "$archive" ] || { usage >&2; exit 64; }; archive=$1; shift ;;
    esac
done
if [ -z "$prefix" ]; then
    if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix=${HOME:?"HOME is not set; give --prefix FOLDER"}/.local; fi
fi
case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
case $prefix in *[:\ ]*) die "the dynamic linker preloads no library from a path with a space or a colon: $prefix" ;; esac

if [ -z "$archive" ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    set -- "$here"/mneme-*-linux-x86_64.tar.xz
    [ $# -eq 1 ] || die "there are several archives in $here; name one"
    archive=$1
    [ -f "$archive" ] || die "there is no archive mneme-VERSION-linux-x86_64.tar.xz in $here; name it"
fi
[ -f "$archive" ] || die "there is no $archive"
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "the programs are for Linux on x86-64, and this is $(uname -s) on $(uname -m)"
# musl has no such name, and its version is none of glibc's.
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || die "the programs need glibc 2.28 or newer, and this system has another C library"
minor=${glibc#glibc 2.}
case $glibc in 'glibc 2.'*) [ "${minor%%.*}" -ge 28 ] || die "the programs need glibc 2.28 or newer, and this is $glibc" ;; esac
for program in tar xz; do command -v "$program" >/dev/null 2>&1 || die "$program is needed and is not on PATH"; done
if [ -f "$archive.sha256" ]; then
    # Its first word is the sum; the name beside it may be another one.
    sum=$(sha256sum <"$archive")
    [ "$(cut -d' ' -f1 <"$archive.sha256")" = "${sum%% *}" ] || die "$archive is not what $archive.sha256 says"
else
    printf 'install.sh: there is no %s.sha256: the archive is taken as it is\n' "$archive" >&2
fi

# What is replaced is ours.
old=$prefix/lib/mneme
if [ -e "$old" ] && [ ! -x "$old/bin/mneme" ]; then die "$old is there and is no installation of mneme: move it, or give another --prefix"; fi
mkdir -p "$prefix/lib" "$prefix/bin"
# It appears under its name when it is complete.
part=$(mktemp -d "$prefix/lib/.mneme.XXXXXX")
trap 'rm -rf "$part"' EXIT
mkdir "$part/mneme"
tar -xJf "$archive" -C "$part/mneme" --strip-components=1 --no-same-owner
[ -x "$part/mneme/bin/mneme" ] || die "$archive is no archive of mneme"
rm -rf "$old"
mv "$part/mneme" "$prefix/lib/mneme"
# Links from a folder below the prefix to what the installation has there: link FOLDER WAY-UP-TO-THE-PREFIX.
link() {
    # Those to what the older one alone had.
    for file in "$prefix/$1"/mneme* "$prefix/$1"/_mneme*; do
        if [ -L "$file" ] && [ ! -e "$file" ]; then rm "$file"; fi
    done
    [ -d "$prefix/lib/mneme/$1" ] || return 0
    mkdir -p "$prefix/$1"
    for file in "$prefix/lib/mneme/$1"/*; do
        link=$prefix/$1/${file##*/}
        if [ ! -L "$link" ] && [ -e "$link" ]; then
            printf 'install.sh: %s is there already and is not ours: it stays, and %s is not linked\n' "$link" "$file" >&2
            continue
        fi
        ln -sf "$2/lib/mneme/$1/${file##*/}" "$prefix/$1/${file##*/}"
    done
}
link bin ..
# Where man and the shells look.
link share/man/man1 ../../..
link share/bash-completion/completions ../../..
link share/zsh/site-functions ../../..
link share/fish/vendor_completions.d ../../..
printf 'Installed %s in %s; the programs are in %s\n' "$("$prefix/lib/mneme/bin/mneme" --version)" "$prefix/lib/mneme" "$prefix/bin"
case :$PATH: in *:"$prefix/bin":*) ;; *) printf 'Put it on PATH: PATH=%s:$PATH\n' "$prefix/bin" ;; esac
printf 'What works on this machine:\n'
# It says what is missing and what to do about it; the installation is complete all the same.
"$prefix/lib/mneme/bin/mneme" doctor || true
