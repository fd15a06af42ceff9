// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"slices"
	"strings"
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

// AddSwap is for a host without swap.
const AddSwap = "add swap; zram is the fastest (Debian, Ubuntu: sudo apt install systemd-zram-generator)"

// Reclaims reports whether the memory of a frozen server can be reclaimed: by the memory controller of its
// group, or by root.
func (h *Host) Reclaims() bool {
	best, _ := h.Best()
	return os.Getuid() == 0 || slices.Contains(best.Controllers, "memory")
}
