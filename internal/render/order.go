// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SortColumns are the columns by which servers can be sorted.
func SortColumns() []string { return []string{"name", "age", "cpu", "memory", "procs", "client"} }

// Comparison compares servers by one of SortColumns, the smallest first. It is nil for another word.
func Comparison(column string) func(a, b *Server) int {
	switch column {
	case "name":
		return func(a, b *Server) int {
			return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		}
	case "age":
		now := time.Now()
		return func(a, b *Server) int { return cmp.Compare(a.sinceStart(now), b.sinceStart(now)) }
	case "cpu":
		return func(a, b *Server) int { return cmp.Compare(a.CPU, b.CPU) }
	case "memory":
		return func(a, b *Server) int { return cmp.Compare(a.MemoryBytes(), b.MemoryBytes()) }
	case "procs":
		return func(a, b *Server) int { return cmp.Compare(a.Processes, b.Processes) }
	case "client":
		return func(a, b *Server) int {
			return cmp.Or(
				cmp.Compare(strings.ToLower(a.Client.Name), strings.ToLower(b.Client.Name)),
				cmp.Compare(a.Client.PID, b.Client.PID),
			)
		}
	}
	return nil
}

// sinceStart is the time since its start in seconds, also of a server that has ended: its age stands still.
func (s *Server) sinceStart(now time.Time) float64 {
	if s.Ended == nil {
		return s.Age
	}
	return s.Age + now.Sub(*s.Ended).Seconds()
}

// MemoryBytes is the memory of a server, and 0 if that is not known.
func (f *Figures) MemoryBytes() uint64 {
	if f.Memory == nil {
		return 0
	}
	return *f.Memory
}

// Order is an order of servers.
type Order struct {
	column     string
	descending bool
}

// OldestFirst is the order without --sort.
func OldestFirst() Order { return Order{column: "age", descending: true} }

// ParseOrder reads the name of a column. As with ps(1), "-" before it puts the largest first.
func ParseOrder(text string) (Order, error) {
	column, descending := strings.CutPrefix(text, "-")
	if !descending {
		column = strings.TrimPrefix(text, "+")
	}
	if !slices.Contains(SortColumns(), column) {
		return Order{}, fmt.Errorf("%q is none of %s", column, strings.Join(SortColumns(), ", "))
	}
	return Order{column: column, descending: descending}, nil
}

// Sort leaves servers that are equal in their order.
func (o Order) Sort(servers []Server) {
	compare := Comparison(o.column)
	slices.SortStableFunc(servers, func(a, b Server) int {
		if o.descending {
			return compare(&b, &a)
		}
		return compare(&a, &b)
	})
}
