// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Swap returns where the memory of idle servers can go: "zram", "disk" or "".
func Swap() string {
	text, _ := os.ReadFile("/proc/swaps") // does not exist on a kernel without swap
	return swapIn(string(text))
}

// swapIn reads /proc/swaps: a heading, and a line for each device.
func swapIn(table string) string {
	devices := strings.Count(table, "\n") - 1
	switch {
	case strings.Contains(table, "/zram"):
		return "zram"
	case devices > 0:
		return "disk"
	}
	return ""
}

func swapText(swap string) string {
	switch swap {
	case "zram":
		return "zram: the memory of idle servers can be reclaimed (run --idle-freeze)"
	case "disk":
		return "a disk: the memory of idle servers can be reclaimed (run --idle-freeze); zram is faster"
	}
	return "none, so a frozen server keeps its memory"
}

// ZramCommand gives this host zram, at once and at each boot: half of its memory. It is "" where that is
// unknown. Those of Debian 12 and 13 were tried, the others are from their documentation.
func ZramCommand() string {
	if unix.Access("/run/systemd/system", unix.F_OK) != nil { // sd_booted(3)
		return ""
	}
	text, _ := os.ReadFile("/etc/os-release") // os-release(5); without it nothing is known
	install := zramPackage(string(text))
	if install == "" {
		return ""
	}
	return `sudo sh -c "` + install + ` && systemctl daemon-reload && systemctl start dev-zram0.swap"`
}

// zramPackage installs the generator of zram units. It does nothing without a configuration, which Arch's has
// not.
func zramPackage(release string) string {
	for line := range strings.Lines(release) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "ID" && key != "ID_LIKE" {
			continue
		}
		for _, id := range strings.Fields(strings.Trim(value, `"'`)) {
			switch id {
			case "debian", "ubuntu":
				return "apt install systemd-zram-generator"
			case "fedora":
				return "dnf install zram-generator-defaults"
			case "arch":
				return "pacman -S zram-generator && echo '[zram0]' >/etc/systemd/zram-generator.conf"
			}
		}
	}
	return ""
}
