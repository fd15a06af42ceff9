// SPDX-License-Identifier: Apache-2.0

package week

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mostJoints bounds the list: it is chosen, and not multiplied.
const mostJoints = 60

var (
	scriptOfJoint = regexp.MustCompile("^`([^`]+\\.txtar)`$")
	testOfJoint   = regexp.MustCompile("^`(Test\\w+)` in `([^`]+)`$")
)

// Each pair of the list has a scenario that exists, and each script that waits for its defect to be mended is in the list.
func TestJoints(t *testing.T) {
	text, err := os.ReadFile("JOINTS.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || len(cells) != 3 || strings.TrimSpace(cells[0]) == "pair" {
			continue
		}
		rows++
		scenario := strings.TrimSpace(cells[2])
		if script := scriptOfJoint.FindStringSubmatch(scenario); script != nil {
			listed[script[1]] = true
			if !isScript(script[1]) {
				t.Errorf("there is no script %s", script[1])
			}
			continue
		}
		if test := testOfJoint.FindStringSubmatch(scenario); test != nil {
			if !hasTest(t, filepath.Join("../..", test[2]), test[1]) {
				t.Errorf("there is no %s in %s", test[1], test[2])
			}
			continue
		}
		t.Errorf("no scenario: %s", line)
	}
	if rows == 0 || rows > mostJoints {
		t.Errorf("%d pairs; there are some, and at most %d", rows, mostJoints)
	}
	waiting, _ := filepath.Glob("testdata/later/*.txtar") // the pattern is valid
	for _, script := range waiting {
		if !listed[filepath.Base(script)] {
			t.Errorf("%s is not in JOINTS.md", script)
		}
	}
}

// isScript also finds a script that waits: its defect is known.
func isScript(name string) bool {
	for _, dir := range []string{"testdata", "testdata/later", "../script/testdata"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // the directory has no meta characters
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t ") {
			return true
		}
	}
	return false
}
