// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"math"
	"slices"
	"time"
)

// A sample is what one thing took, each time it was tried.
type sample []time.Duration

// pairs are two samples, taken in turn, so that each value has a partner that met the
// same load.
type pairs struct{ base, value sample }

func (p *pairs) add(base, value time.Duration) {
	p.base, p.value = append(p.base, base), append(p.value, value)
}

// differences are those within each pair: load that comes and goes cancels out, as it
// does not in the difference of two medians.
func (p pairs) differences() sample {
	d := make(sample, len(p.value))
	for i := range d {
		d[i] = p.value[i] - p.base[i]
	}
	return d
}

// quantile is by nearest rank: always a value that was seen.
func (s sample) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(q*float64(len(s)))) - 1
	return sorted[max(rank, 0)]
}

// less takes a constant off.
func (s sample) less(d time.Duration) sample {
	out := make(sample, len(s))
	for i := range s {
		out[i] = s[i] - d
	}
	return out
}
