// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
)

const (
	oomScoreLeast = -1000 // OOM_SCORE_ADJ_MIN
	oomScoreMost  = 1000  // OOM_SCORE_ADJ_MAX
)

// RaiseOOMScore gives a process a higher score than its client has. It never lowers one. pidfd is that of the
// process, or -1 for one that is ours and can't have ended.
func RaiseOOMScore(pid, pidfd, client int) error {
	file, err := os.OpenFile(oomScoreFile(pid), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("raise the oom score of process %d: %w", pid, err)
	}
	defer file.Close()
	if pidfd >= 0 && linux.Ended(pidfd) { // the file is that of another process, which has its pid now
		return nil
	}
	now, err := readOOMScore(pid)
	if err != nil {
		return err
	}
	ofClient, err := readOOMScore(client)
	if err != nil {
		return err
	}
	wanted := oomScoreAbove(ofClient)
	if now >= wanted {
		return nil
	}
	if _, err := file.WriteString(strconv.Itoa(wanted)); err != nil {
		return fmt.Errorf("raise the oom score of process %d: %w", pid, err)
	}
	return nil
}

// LowerOOMScore sets the score of a process to the least multiple of 100 below it that is allowed. Without
// privileges that is limited (proc_pid_oom_score_adj(5)). It does nothing if no lower one is.
func LowerOOMScore(pid int) {
	now, err := readOOMScore(pid)
	if err != nil { // the process has ended
		return
	}
	for _, score := range lowerScores(now) {
		if os.WriteFile(oomScoreFile(pid), []byte(strconv.Itoa(score)), 0) == nil {
			return
		}
	}
}

// lowerScores are the multiples of 100 below a score, the least first.
func lowerScores(now int) (scores []int) {
	for score := oomScoreLeast; score < now; score += 100 {
		scores = append(scores, score)
	}
	return scores
}

// oomScoreAbove is the score of a process that the kernel kills before its client.
func oomScoreAbove(ofClient int) int { return min(ofClient+oomScoreAboveAgent, oomScoreMost) }

func oomScoreFile(pid int) string { return fmt.Sprintf("/proc/%d/oom_score_adj", pid) }

func readOOMScore(pid int) (int, error) {
	text, err := os.ReadFile(oomScoreFile(pid))
	if err != nil {
		return 0, fmt.Errorf("read the oom score of process %d: %w", pid, err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, errors.Join(fmt.Errorf("read the oom score of process %d", pid), err)
	}
	return score, nil
}
