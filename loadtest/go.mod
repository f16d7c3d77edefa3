module github.com/weir-project/weir/loadtest

go 1.26.0

require (
	github.com/weir-project/weir/pkg v0.0.0
	github.com/weir-project/weir/services v0.0.0
)

replace (
	github.com/weir-project/weir/pkg => ../pkg
	github.com/weir-project/weir/services => ../services
)
