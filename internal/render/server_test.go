// SPDX-License-Identifier: Apache-2.0

package render

import "testing"

func TestCPULimit(t *testing.T) {
	for text, want := range map[string]float64{
		"150000 100000": 1.5, "50000 100000": 0.5, "max 100000": 0, "": 0, "100000": 0, "1 0": 0, "x y": 0,
	} {
		var v Server
		v.Limits = map[string]string{"cpu.max": text}
		if got, known := v.CPULimit(); got != want || known != (want > 0) {
			t.Errorf("%q: %g, %v, want %g", text, got, known, want)
		}
	}
}
