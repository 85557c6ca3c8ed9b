package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is committed is what go.mod says; every licence is one that is known.
func TestNoticeIsCurrent(t *testing.T) {
	const root = "../.."
	list, err := modules(root)
	require.NoError(t, err)
	for name, want := range list.files() {
		have, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is not current: run make notice (%v)", name, err)
		}
	}
	if texts := list.texts(); len(texts) < 100_000 || strings.Count(string(texts), "\n==== ") < len(list)/2 {
		t.Errorf("%d bytes of licences", len(texts))
	}
}

func TestLicences(t *testing.T) {
	for text, want := range map[string]string{
		"Permission is hereby granted, free\n of charge, to any person": "MIT",
		"GNU GENERAL PUBLIC LICENSE\nVersion 3":                         "",
		"All rights reserved.":                                          "",
		"Redistribution and use in source and binary forms, with":       "BSD-2-Clause",
	} {
		if got := licence(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
