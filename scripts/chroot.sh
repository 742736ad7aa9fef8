# shellcheck shell=bash
# Chroots of Debian's suites, for scripts that build or test in one. Source it after env.sh, and set `root`, the
# chroot's folder.

mirror=http://deb.debian.org/debian

# Folders of the machine that the chroot has at the same place.
shared=()

# Runs a command in the chroot, with the shared folders. The mounts end with it.
inside() {
    # shellcheck disable=SC2016
    unshare --mount bash -c '
        set -e
        root=$1 && shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        while [ "$1" != -- ]; do
            mkdir -p "$root$1"
            mount --bind "$1" "$root$1"
            shift
        done
        shift
        exec chroot "$root" "$@"' bash "$root" "${shared[@]}" -- "$@"
}

# Unpacks the base system of a suite, unless it is there: chroot_of SUITE.
chroot_of() {
    local suite=$1
    [ "$(id -u)" -eq 0 ] || die "a chroot needs root: run it with sudo --preserve-env=PATH"
    if [ ! -d "$root/etc/apt" ]; then
        if ! PATH=$PATH:/usr/sbin command -v debootstrap >/dev/null 2>&1; then
            step "Debian packages: installing debootstrap"
            DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends debootstrap \
                debian-archive-keyring >/dev/null
        fi
        step "Debian $suite: unpacking the base system in $root"
        mkdir -p "$(dirname "$root")"
        rm -rf "$root.part"
        PATH=$PATH:/usr/sbin debootstrap --variant=minbase "$suite" "$root.part" "$mirror" >"$root.log" ||
            die "debootstrap failed, see $root.log"
        mv "$root.part" "$root"
    fi
    cp /etc/resolv.conf "$root/etc/resolv.conf"
}

# Whether the chroot has all of these packages.
inside_has() { inside dpkg-query --show "$@" >/dev/null 2>&1; }

# Brings the chroot's lists of packages up to date, and ends what was interrupted. A mirror may be some days behind.
inside_update() {
    inside apt-get -qq -o Acquire::Check-Valid-Until=false update
    inside dpkg --configure --pending
}

# Installs packages in the chroot; there is no terminal to show progress on. Options of apt-get may go before them.
inside_install() {
    inside env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install --yes --no-install-recommends "$@" >/dev/null
}
