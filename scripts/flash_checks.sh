# shellcheck shell=bash
# Sourced by flash_orin.sh: what must hold before a board is flashed. Every problem is told, then `problems` is not 0.

problems=0
problem() {
    echo "problem: $*" >&2
    problems=$((problems + 1))
}

# check_host COMMAND...: the flashing tools are x86-64 Linux programs and call these commands.
check_host() {
    local system missing=() name
    system=$(uname -sm)
    [[ "$system" == "Linux x86_64" ]] || problem "this host is $system: flashing needs Linux on x86_64"
    for name in lsusb "$@"; do
        command -v "$name" >/dev/null || missing+=("$name")
    done
    [[ ${#missing[@]} -eq 0 ]] ||
        problem "commands are missing: ${missing[*]} (lsusb: package usbutils; the others: sudo tools/l4t_flash_prerequisites.sh in the BSP)"
}

# check_space FOLDER GB: room for the images that are made there.
check_space() {
    local free_kb
    free_kb=$(df -Pk "$1" | awk 'END { print $4 }')
    [[ "$free_kb" -ge $(($2 * 1000 * 1000)) ]] ||
        problem "$((free_kb / 1000 / 1000)) GB are free in $1: $2 GB are needed for the images"
}

# find_bsp: prints the Linux_for_Tegra folder of the newest release among the usual places.
find_bsp() {
    local folder
    for folder in Linux_for_Tegra "$HOME"/Linux_for_Tegra "$HOME"/nvidia/nvidia_sdk/*/Linux_for_Tegra; do
        if [[ -x "$folder/flash.sh" ]]; then
            echo "$(bsp_release "$folder") $(realpath "$folder")"
        fi
    done | sort -V | tail -n 1 | cut -d' ' -f2-
}

# bsp_release FOLDER: prints its release as 36.4.3; 0 where apply_binaries.sh has not been run.
bsp_release() {
    local release
    release=$(sed -nE '1s/^# R([0-9]+) \(release\), REVISION: ([0-9.]+),.*/\1.\2/p' \
        "$1/rootfs/etc/nv_tegra_release" 2>/dev/null) || true
    echo "${release:-0}"
}

# check_bsp FOLDER BOARD HAND_OVER: complete, with binaries applied, of a release whose command line is known, and,
# where HAND_OVER is true, on which the toolkit runs.
check_bsp() {
    local release
    release=$(bsp_release "$1")
    [[ -f "$1/$2.conf" ]] || problem "$1 has no $2.conf: that board is not known to this BSP"
    if [[ ! -d "$1/rootfs/usr" ]]; then
        problem "$1/rootfs is empty: unpack the sample root file system of the same release there, with sudo tar xpf"
    elif [[ "$release" == 0 ]]; then
        problem "$1/rootfs has no /etc/nv_tegra_release: run sudo ./apply_binaries.sh in $1"
    fi
    case $release in
        0 | 36.*) ;;
        35.*)
            ! $3 ||
                problem "release $release is JetPack 5 (Python 3.8, CUDA 11.4), on which this toolkit does not run: take a BSP of release 36, or flash without it (--no-setup)"
            ;;
        *) problem "the BSP is release $release: commands are known for 35 (JetPack 5) and 36 (JetPack 6); use --with sdkmanager" ;;
    esac
    [[ "$release" != 36.4.7 ]] ||
        echo "warning: large GPU allocations fail on release 36.4.7 (NvMapMemAlloc error 12): 36.5 is better" >&2
}

# module_of USB_PRODUCT: prints what NVIDIA's USB product id stands for in recovery mode, "" if unknown.
module_of() {
    case $1 in
        7023 | 7223) echo "Jetson AGX Orin" ;;
        7323 | 7423) echo "Jetson Orin NX" ;;
        7523 | 7623) echo "Jetson Orin Nano" ;;
        7019) echo "Jetson AGX Xavier" ;;
        7e19) echo "Jetson Xavier NX" ;;
    esac
}

# recovery_devices: prints the USB product id of each Jetson in recovery mode, one a line.
recovery_devices() {
    local product
    for product in $(lsusb 2>/dev/null | sed -nE 's/.* ID 0955:([0-9a-fA-F]{4}).*/\L\1/p'); do
        [[ -z "$(module_of "$product")" ]] || echo "$product"
    done
}

# check_recovery: exactly one Jetson is in recovery mode, and it is an AGX Orin.
check_recovery() {
    local found
    mapfile -t found < <(recovery_devices)
    if [[ ${#found[@]} -eq 0 ]]; then
        if lsusb 2>/dev/null | grep -q 'ID 0955:7020'; then
            problem "the Jetson is running Linux: hold the recovery button, press and release reset, release recovery"
        else
            problem "no Jetson in recovery mode (lsusb: 0955:7023 or 0955:7223): connect the USB-C port next to the 40 pins, hold the recovery button, press and release reset, release recovery"
        fi
    elif [[ ${#found[@]} -gt 1 ]]; then
        problem "${#found[@]} Jetsons are in recovery mode: leave only the one to flash connected"
    elif [[ "$(module_of "${found[0]}")" != "Jetson AGX Orin" ]]; then
        problem "a $(module_of "${found[0]}") is connected (0955:${found[0]}): this flashes a Jetson AGX Orin"
    fi
}

# check_board_id BOARD OUTPUT: OUTPUT of nvautoflash.sh --print_boardid is that of a module which BOARD is for.
check_board_id() {
    local id sku wanted=jetson-agx-orin-devkit
    id=$(sed -nE 's/.*board id ?\(([0-9]+)\).*/\1/Ip' <<<"$2" | head -n 1)
    sku=$(sed -nE 's/.*sku ?\(([0-9]+)\).*/\1/Ip' <<<"$2" | head -n 1)
    if [[ -z "$id" || -z "$sku" ]]; then
        problem "the board did not tell what it is; the end of what nvautoflash.sh wrote: $(tail -n 3 <<<"$2")"
        return
    fi
    case $id-$sku in
        3701-0000 | 3701-0004 | 3701-0005) ;;
        3701-0008) wanted=jetson-agx-orin-devkit-industrial ;;
        *)
            problem "the board is P$id-$sku: expected a Jetson AGX Orin (P3701-0000, -0004, -0005 or -0008)"
            return
            ;;
    esac
    # Configurations for other carriers have names of their own; which module they are for is not known here.
    case $1 in
        "$wanted") ;;
        jetson-agx-orin-devkit | jetson-agx-orin-devkit-industrial)
            problem "the board is P$id-$sku: flash it with --board $wanted, not $1"
            ;;
    esac
}
