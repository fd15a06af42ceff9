// SPDX-License-Identifier: Apache-2.0

// signin is a server that has its user sign in, as many have it: it listens on the loopback, has the user's browser
// open a page there, and goes on when the page has called back. It ends with its stdin.
package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// page calls back with what only a browser knows: how wide it has made the paragraph.
const page = `<!doctype html><title>Sign in</title><p id="p" style="width: 123px; border: 1px solid">Signing in</p><script>
const width = document.getElementById("p").getBoundingClientRect().width
fetch("/callback", {method: "POST", body: new URLSearchParams({state: "%s", width: width})})
</script>`

func main() {
	if err := signIn(); err != nil {
		fmt.Println("signin:", err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // to its end
}

func signIn() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	state, signedIn, failed := rand.Text(), make(chan string, 1), make(chan error, 1)
	http.HandleFunc("GET /sign-in", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, page, state)
	})
	http.HandleFunc("POST /callback", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("state") != state || r.FormValue("width") != "125" {
			http.Error(w, "not the page's answer", http.StatusBadRequest)
			return
		}
		signedIn <- r.UserAgent()
	})
	go func() { _ = http.Serve(l, nil) }() // as long as this runs
	fmt.Println("ready")
	go func() { // some browsers return when they are closed
		if err := open(os.Getenv("BROWSER"), "http://"+l.Addr().String()+"/sign-in"); err != nil {
			failed <- err
		}
	}()
	select {
	case by := <-signedIn:
		fmt.Println("signed in by", by)
		return nil
	case err := <-failed:
		return err
	}
}

// open does what Python's webbrowser and xdg-open do with the first of the browsers.
func open(browser, address string) error {
	first, _, _ := strings.Cut(browser, ":")
	words := strings.Fields(first)
	if len(words) == 0 {
		return fmt.Errorf("BROWSER is %q", browser)
	}
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, "%s", address)
	}
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", words, err, out)
	}
	return nil
}
