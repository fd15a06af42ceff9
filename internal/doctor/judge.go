// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"

	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/units"
)

// Diagnosis is the result of doctor, in JSON too; fields are only added.
type Diagnosis struct {
	Version  int           `json:"version"`
	Mcpscope string        `json:"mcpscope"`
	UID      int           `json:"uid"`
	Backend  names.Backend `json:"backend"`  // of run, or ""
	Group    bool          `json:"group"`    // the server has its own control group
	Backends []Trial       `json:"backends"` // in the order of auto
	Host     Host          `json:"host"`
	Advice   []Advice      `json:"advice,omitempty"`
	Findings
	Limits   []string   `json:"limits,omitempty"` // that cannot be applied
	Selftest []TestCase `json:"selftest,omitempty"`
}

// Judge makes the diagnosis of facts. mcpscope run uses the first backend that works.
func Judge(f Facts) *Diagnosis {
	d := &Diagnosis{
		Version: 1, Mcpscope: f.Mcpscope, UID: f.UID, Host: f.Host, Findings: f.Findings,
	}
	d.Changed = withoutUncontained(f.Findings.Changed, f.Findings.Uncontained)
	for _, t := range f.Trials {
		isOfRun := t.Works && d.Backend == ""
		if isOfRun {
			d.Backend = t.Backend
			d.Group = t.Group
			d.Limits = inapplicableLimits(f.Limits, t)
			t.Remedy = remedyForControllers(t, f.Host.Cgroup)
		}
		d.Backends = append(d.Backends, t)
	}
	if d.Backend != "" { // otherwise the remedies of the backends are enough
		d.Advice = advise(d.Backend, f)
	}
	return d
}

// withoutUncontained leaves out services whose remedy is there already.
func withoutUncontained(changed []ChangedGateway, uncontained []units.UncontainedGateway) []ChangedGateway {
	return slices.DeleteFunc(slices.Clone(changed), func(g ChangedGateway) bool {
		isSame := func(u units.UncontainedGateway) bool { return u.Unit == g.Unit }
		return slices.ContainsFunc(uncontained, isSame)
	})
}

// IsHealthy reports whether nothing has to be repaired: servers get their own control group with their
// limits, gateways contain their servers, settings have no mistake, and the selftest has passed.
func (d *Diagnosis) IsHealthy() bool {
	hasFailed := func(c TestCase) bool { return !c.Passed }
	switch {
	case !d.Group:
		return false
	case len(d.Limits) > 0: // with one of them mcpscope run starts nothing
		return false
	case len(d.Uncontained) > 0 || len(d.Changed) > 0:
		return false
	case len(d.Settings) > 0:
		return false
	}
	return !slices.ContainsFunc(d.Selftest, hasFailed)
}
