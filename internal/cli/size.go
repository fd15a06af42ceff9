// SPDX-License-Identifier: Apache-2.0

package cli

import "fmt"

// HumanBytes is a size in at most five characters: 0B, 1023B, 1.5K, 320M, 2.0G.
func HumanBytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	v := float64(n)
	for _, unit := range "KMGTPE" {
		v /= 1024
		switch {
		case v < 9.95:
			return fmt.Sprintf("%.1f%c", v, unit)
		case v < 1023.5 || unit == 'E':
			return fmt.Sprintf("%.0f%c", v, unit)
		}
	}
	return ""
}
