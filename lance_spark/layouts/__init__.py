"""Page layouts: conversion between the buffers of a page and Arrow arrays."""
