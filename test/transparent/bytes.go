// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Bytes arrive as they were sent, each way and on each kind of channel, and in one message
// of any size.
func Bytes(t *testing.T, s Subject) {
	size := int64(64 << 20)
	if escape.Full() {
		size = 1 << 30
	}
	for kind := range channels {
		t.Run("each way/"+kind, func(t *testing.T) {
			t.Parallel()
			k := startTalk(t, s.Site(t), kind, s.contained().line("cat"))
			sent, got := sha256.New(), sha256.New()
			done := make(chan error, 1)
			go func() {
				_, err := io.CopyBuffer(io.MultiWriter(k.in, sent), &pattern{left: size}, make([]byte, 1<<20))
				done <- err
				k.in.Close()
			}()
			n, err := io.Copy(got, k.out)
			if werr := <-done; werr != nil || err != nil || n != size {
				t.Errorf("sent with %v; got %d of %d with %v", werr, n, size, err)
			}
			if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
				t.Error("other bytes came back")
			}
			if status := k.ended(t); status != 0 {
				t.Errorf("ended with %v", status)
			}
		})
	}
	t.Run("one message", func(t *testing.T) {
		t.Parallel()
		message := bytes.Repeat([]byte("64 MiB. "), 8<<20)
		message[len(message)-1] = '\n'
		k := startTalk(t, s.Site(t), "pipe", s.contained().line("head", "-n", "1"))
		go func() { _, _ = k.in.Write(message) }() // stdin stays open
		got, err := io.ReadAll(io.LimitReader(k.out, int64(len(message))))
		if err != nil || !bytes.Equal(got, message) {
			t.Errorf("%d bytes came back, %v", len(got), err)
		}
		if status := k.ended(t); status != 0 {
			t.Errorf("ended with %v", status)
		}
	})
}

// A pattern gives bytes that show when some are lost, doubled or moved: its period is no
// multiple of any buffer's size.
type pattern struct {
	left, at int64
}

var period = func() []byte {
	all := make([]byte, 1<<20+7)
	_, _ = rand.NewChaCha8([32]byte{}).Read(all) // it never fails
	return all
}()

func (p *pattern) Read(buf []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := copy(buf[:min(int64(len(buf)), p.left)], period[p.at%int64(len(period)):])
	p.at += int64(n)
	p.left -= int64(n)
	return n, nil
}
