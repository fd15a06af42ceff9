// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import "time"

// A Summary is a sample in the unit of its row.
type Summary struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	N   int     `json:"n"`
}

// A Row compares one thing with what it is measured against.
type Row struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Base and Difference are nil where there is nothing to compare with.
	Base       *Summary `json:"base,omitempty"`
	Value      Summary  `json:"value"`
	Ratio      float64  `json:"ratio,omitempty"` // of the medians
	Difference *Summary `json:"difference,omitempty"`
	Aim        string   `json:"aim,omitempty"`
	Met        *bool    `json:"met,omitempty"`
}

// A Section is one table.
type Section struct {
	Title   string    `json:"title"`
	Base    string    `json:"base,omitempty"` // what Row.Base is of
	Rows    []Row     `json:"rows"`
	Skipped []Skipped `json:"skipped,omitempty"`
}

// Skipped is a row that could not be had.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (s sample) summary(unit time.Duration) Summary {
	in := func(q float64) float64 { return float64(s.quantile(q)) / float64(unit) }
	return Summary{Min: in(0), P50: in(0.5), P90: in(0.9), N: len(s)}
}

func (s sample) row(name, unitName string, unit time.Duration) Row {
	return Row{Name: name, Unit: unitName, Value: s.summary(unit)}
}

func (p pairs) row(name, unitName string, unit time.Duration) Row {
	r := p.value.row(name, unitName, unit)
	base, difference := p.base.summary(unit), p.differences().summary(unit)
	r.Base, r.Difference = &base, &difference
	r.Ratio = r.Value.P50 / base.P50
	return r
}

// aim says what a row should reach, and whether it does.
func (r *Row) aim(text string, met bool) { r.Aim, r.Met = text, &met }

// find returns the row of that name, or nil where it was skipped.
func (s *Section) find(name string) *Row {
	for i := range s.Rows {
		if s.Rows[i].Name == name {
			return &s.Rows[i]
		}
	}
	return nil
}
