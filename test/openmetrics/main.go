// SPDX-License-Identifier: Apache-2.0

// Command openmetrics reads OpenMetrics text on stdin with the parser of Prometheus, and
// prints each sample as it has understood it, or says what it does not understand.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

func main() {
	if err := check(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	p := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry == textparse.EntrySeries {
			var series labels.Labels
			_, _, value := p.Series()
			p.Labels(&series)
			fmt.Fprintf(out, "%q %v\n", series.String(), value)
		}
	}
}
