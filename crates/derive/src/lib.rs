//! Derive macros for [`Stored` and `State`](https://docs.rs/strobe-types), re-exported by `strobe-types`.
//!
//! Fields are written in declaration order. Every field is part of the state unless `#[state(skip)]` marks
//! it.

mod expand;

use proc_macro::TokenStream;

/// Implements `Stored` for a struct, or for an enum, whose variants are numbered by position.
///
/// Type parameters get the bound `Stored`.
#[proc_macro_derive(Stored)]
pub fn derive_stored(input: TokenStream) -> TokenStream {
    finished(syn::parse(input).and_then(expand::stored))
}

/// Implements `State` for a struct that is built from the configuration before its state is loaded.
///
/// Fields whose type mentions a type parameter get the bound `State`. A field that cannot be saved as a plain
/// `State` has an attribute:
///
/// | Attribute | Field |
/// |---|---|
/// | `#[state(table)]` | a `Vec` or boxed slice whose length follows from the configuration |
/// | `#[state(part)]` | an `Option`, or `Option<Box<…>>`, that is `Some` or `None` by the configuration |
/// | `#[state(skip)]` | not written: it follows from the configuration, or is empty when a state is saved |
#[proc_macro_derive(State, attributes(state))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    finished(syn::parse(input).and_then(expand::state))
}

fn finished(code: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    code.unwrap_or_else(|error| error.to_compile_error()).into()
}
