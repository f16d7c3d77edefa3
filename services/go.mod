module github.com/weir-project/weir/services

go 1.26.0

require github.com/weir-project/weir/pkg v0.0.0

replace github.com/weir-project/weir/pkg => ../pkg
