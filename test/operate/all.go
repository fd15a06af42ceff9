// SPDX-License-Identifier: Apache-2.0

package operate

import "testing"

// All are the tests that every backend has to pass, but for the long ones.
func All(t *testing.T, s Subject) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Subject)
	}{
		{"Completed", Completed}, {"Figures", Figures}, {"Freeze", Freeze}, {"Full", Full}, {"Listed", Listed}, {"MaxCopies", MaxCopies}, {"Metrics", Metrics}, {"Notes", Notes}, {"Orphans", Orphans},
		{"Replace", Replace}, {"Stop", Stop}, {"StopClient", StopClient}, {"StopNow", StopNow}, {"Top", Top}, {"Unknown", Unknown}, {"Wait", Wait},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}
