//! Derive macros for [`Stored` and `State`](https://docs.rs/strobe-types), which `strobe-types` passes on.
//!
//! Fields are written in the order of their declaration. A new field is part of the state unless it is marked.

mod expand;

use proc_macro::TokenStream;

/// Implements `Stored` for a value: a struct, or an enum whose variants are numbered by position.
///
/// Type parameters are bound by `Stored`.
#[proc_macro_derive(Stored)]
pub fn derive_stored(input: TokenStream) -> TokenStream {
    finished(syn::parse(input).and_then(expand::stored))
}

/// Implements `State` for a struct that is built from the configuration before its state is loaded.
///
/// Fields whose type has a type parameter are bound by `State`. An attribute marks a field that is not a `State` itself:
///
/// | Attribute | Field |
/// |---|---|
/// | `#[state(table)]` | a `Vec` or boxed slice whose length follows from the configuration |
/// | `#[state(part)]` | an `Option`, or `Option<Box<…>>`, that is `Some` or `None` by the configuration |
/// | `#[state(skip)]` | comes from the configuration alone, or is empty when a state is saved: nothing is written |
#[proc_macro_derive(State, attributes(state))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    finished(syn::parse(input).and_then(expand::state))
}

/// Returns the code, or an error at the place that caused it.
fn finished(code: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    code.unwrap_or_else(|error| error.to_compile_error()).into()
}
