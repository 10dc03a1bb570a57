//! Structs whose fields have defaults.

/// Declares a struct with a default for each field.
///
/// ```
/// strobe_types::defaults! {
///     #[derive(Debug, PartialEq)]
///     pub struct Range {
///         pub first: u64 = 0;
///         pub sectors: u32 = 8;
///     }
/// }
/// assert_eq!(Range::default(), Range { first: 0, sectors: 8 });
/// ```
#[macro_export]
macro_rules! defaults {
    (
        $(#[$about:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_about:meta])* $field_visibility:vis $field:ident: $type:ty = $default:expr;)+
        }
    ) => {
        $(#[$about])*
        $visibility struct $name {
            $($(#[$field_about])* $field_visibility $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}

/// True if `value` is the default of its type. Such keys are omitted from output.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// True if `number` is 1.
pub fn is_one<T: PartialEq + From<u8>>(number: &T) -> bool {
    *number == T::from(1)
}
