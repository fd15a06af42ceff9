// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os/exec"
	"testing"
)

// Each source file names the license.
func TestLicenseIsNamed(t *testing.T) {
	if out, err := exec.Command("../../.ci/spdx", "--check").CombinedOutput(); err != nil {
		t.Errorf("these lack the line with the SPDX identifier; make spdx adds it:\n%s", out)
	}
}
